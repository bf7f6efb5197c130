"""Where a token stands, told to attention: by turning q and k, or by a bias on the scores. Each way is a value.

Query i stands at p = offset + i, key j at j. All three ways look at j - p only, so that moving a whole text changes
nothing. Nothing is remembered between calls: angles, slopes and buckets follow from the positions that are passed in.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import torch

from headwise.attention.call import Tiled, accumulation_dtype, tile_of
from headwise.axes import Bias, Float, Int, Tensor
from headwise.errors import ArgumentError, ShapeError

Pairing = Literal["halves", "neighbours"]


class PositionEncoding:
    """Tells attention nothing about positions. The ways below override one of the two."""

    def rotate(self, x: Float[Tensor, "B N T D"], at: Int[Tensor, "#B T"]) -> Float[Tensor, "B N T D"]:
        """Queries or keys that stand `at` these positions, as the scores are to see them."""
        return x

    def bias(self, offset: Int[Tensor, " B"], heads: int, dtype: torch.dtype) -> "PositionBias | None":
        """What is added to the scores of queries that stand from `offset` on."""
        return None


NOPE = PositionEncoding()


@dataclass(frozen=True)
class Rotary(PositionEncoding):
    """Turns pairs of features by an angle that grows with the position, so that q·k depends on j - p.

        pair m of a token at p turns by p · base^(-2m / width)

    Angles are taken in float64: in float32 they would be off by 0.004 radians at position 100,000.

    Args:
        base: how much slower the last pair turns than the first.
        width: features that turn, from the first on; all of them when absent.
        pairing: "halves" pairs feature m with m + width/2 (Llama, GPT-NeoX), "neighbours" 2m with 2m + 1 (the paper,
            GPT-J). Neither can be told from q·k alone; weights made for one are wrong with the other.

    Raises:
        ArgumentError: base is not positive, width is not even, or the pairing has another name.

    References:
        Su et al. 2021, equations 15 and 34.

    Example:
        >>> x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
        >>> Rotary().rotate(x, torch.tensor([[0, 1]]))[0, 0, 1].tolist()
        [0.5403022766113281, 0.8414709568023682]
    """

    base: float = 10_000.0
    width: int | None = None
    pairing: Pairing = "halves"

    def __post_init__(self) -> None:
        if not self.base > 0:
            raise ArgumentError(f"base must be positive, got {self.base}. Most models use 10000.")
        if self.width is not None and (self.width < 0 or self.width % 2):
            raise ArgumentError(f"width must be even, since features turn in pairs, got {self.width}. Choose {self.width + 1} or leave it out.")
        if self.pairing not in get_args(Pairing):
            raise ArgumentError(f"pairing must be 'halves' or 'neighbours', got {self.pairing!r}. Llama pairs halves.")

    def rotate(self, x: Float[Tensor, "B N T D"], at: Int[Tensor, "#B T"]) -> Float[Tensor, "B N T D"]:
        width = x.shape[-1] if self.width is None else self.width
        if width > x.shape[-1] or width % 2:
            raise ShapeError(f"width must be even and at most that of a head, got {width} and {x.shape[-1]}. Give Rotary(width=...) the features that turn.")
        angle = _angles(at, width, self.base)[:, None]
        first, second = _pairs(x[..., :width].to(accumulation_dtype(x.dtype)), self.pairing)
        cos, sin = angle.cos().to(first.dtype), angle.sin().to(first.dtype)
        turned = _unpair(first * cos - second * sin, first * sin + second * cos, self.pairing)
        return torch.cat([turned.to(x.dtype), x[..., width:]], -1)


@dataclass(frozen=True)
class Alibi(PositionEncoding):
    """The further away a key, the lower its score, by a slope of each head's own: bias = -slope · |p - j|.

    Args:
        slopes: one for each head. When absent those of the authors' code: 2^(-8/n), 2^(-16/n), ... for n heads, n a
            power of two; else those of the next smaller power, then every other one of twice as many.

    References:
        Press et al. 2022, section 3; head counts that are not powers of two: their code, which the paper's text leaves open.

    Example:
        >>> Alibi().slopes_of(3)
        (0.0625, 0.00390625, 0.25)
    """

    slopes: tuple[float, ...] | None = None

    def slopes_of(self, heads: int) -> tuple[float, ...]:
        """One slope for each of so many heads."""
        if self.slopes is None:
            return tuple(_series(heads))
        if len(self.slopes) != heads:
            raise ShapeError(f"slopes must have one number for each of {heads} heads, got {len(self.slopes)}. Leave them out for the usual ones.")
        return self.slopes

    def bias(self, offset: Int[Tensor, " B"], heads: int, dtype: torch.dtype) -> "PositionBias":
        return _AlibiBias(offset, torch.tensor(self.slopes_of(heads), device=offset.device, dtype=dtype))


@dataclass(frozen=True, eq=False)
class RelativeBuckets(PositionEncoding):
    """A learned number for each head and each bucket of distances: near ones have one each, far ones share.

    Of n buckets (n/2 for each direction where both count), the first half is for the distances 0, 1, 2, ...; the rest
    grow geometrically up to `max_distance`; all beyond share the last. Edges are found in whole numbers, without rounding.

    Args:
        table: the learned numbers.
        max_distance: in tokens.
        bidirectional: keys ahead get buckets of their own; otherwise they count as distance 0.

    Raises:
        ArgumentError: too few buckets, or a max_distance that lies within those that are single.

    References:
        Raffel et al. 2020, section 2.1, as in the code that was published with it. T5 does not scale its scores: pass scale=1.

    Example:
        >>> RelativeBuckets(torch.zeros(32, 4)).bucket(torch.tensor([-200, -9, -1, 0, 1, 9])).tolist()
        [15, 8, 1, 0, 17, 24]
    """

    table: Float[Tensor, "buckets H"]
    max_distance: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        least = 4 if self.bidirectional else 2
        if self.table.dim() != 2 or len(self.table) < least or len(self.table) % (least // 2):
            raise ArgumentError(f"table must be [buckets, heads], {least} buckets or more, as many each way, got {list(self.table.shape)}. T5 has 32.")
        if self.max_distance <= self._single:
            raise ArgumentError(f"max_distance must exceed {self._single}, the distances with a bucket each, got {self.max_distance}. T5 takes 128.")

    @property
    def _one_way(self) -> int:
        return len(self.table) // 2 if self.bidirectional else len(self.table)

    @property
    def _single(self) -> int:
        return self._one_way // 2

    def bucket(self, ahead: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The bucket of a key that stands so many tokens ahead of the query; behind is negative."""
        far = ahead.abs() if self.bidirectional else (-ahead).clamp(min=0)
        edges = torch.tensor(_edges(self._one_way - self._single, self._single, self.max_distance), dtype=torch.int64, device=ahead.device)
        grown = self._single + torch.bucketize(far, edges, right=True)
        found = torch.where(far < self._single, far, grown)
        return found + self._one_way * (ahead > 0) if self.bidirectional else found

    def bias(self, offset: Int[Tensor, " B"], heads: int, dtype: torch.dtype) -> "PositionBias":
        if self.table.shape[1] != heads:
            raise ShapeError(f"table must have one column for each of {heads} heads, got {list(self.table.shape)}. Its shape is [buckets, heads].")
        return _BucketedBias(offset, self.table.to(offset.device, dtype), self)


@dataclass(frozen=True, eq=False)
class PositionBias(Tiled):
    """A bias that follows from positions and some learned or fixed numbers, evaluated tile by tile.

    Attributes:
        offset: p of the first query, of each batch row.
        numbers: that the bias is made of. Where they learn the plane must be whole, since no gradient flows into a tile.
    """

    offset: Int[Tensor, " B"]
    numbers: Tensor

    def ahead(self, rows: slice, keys: slice) -> Int[Tensor, "b t s"]:
        """j - p; one batch row where all stand alike."""
        offset = self.offset[:1] if bool((self.offset == self.offset[:1]).all()) else self.offset
        device = offset.device
        p = offset[:, None, None] + torch.arange(rows.start, rows.stop, device=device)[:, None]
        return torch.arange(keys.start, keys.stop, device=device) - p


@dataclass(frozen=True, eq=False)
class _AlibiBias(PositionBias):
    def tile(self, rows: slice, keys: slice) -> Float[Tensor, "b H t s"]:
        return -self.numbers[:, None, None] * self.ahead(rows, keys).abs()[:, None]


@dataclass(frozen=True, eq=False)
class _BucketedBias(PositionBias):
    buckets: RelativeBuckets

    def tile(self, rows: slice, keys: slice) -> Float[Tensor, "b H t s"]:
        return self.numbers[self.buckets.bucket(self.ahead(rows, keys))].permute(0, 3, 1, 2)


@dataclass(frozen=True, eq=False)
class _Sum(Tiled):
    """Two biases at once."""

    position_bias: PositionBias
    other: Bias | Tiled

    def tile(self, rows: slice, keys: slice) -> Float[Tensor, "b H t s"]:
        return self.position_bias.tile(rows, keys) + tile_of(self.other, rows, keys)


def add_position_bias(bias: Bias | Tiled | None, position_bias: PositionBias | None, queries: int, keys: int) -> Bias | Tiled | None:
    """The bias of a call and that of the positions together: in tiles, or whole where one of them learns."""
    if position_bias is None:
        return bias
    both = position_bias if bias is None else _Sum(position_bias, bias)
    learns = any(isinstance(numbers, Tensor) and numbers.requires_grad for numbers in (position_bias.numbers, bias))
    return both.tile(slice(0, queries), slice(0, keys)) if learns and torch.is_grad_enabled() else both


def _angles(at: Int[Tensor, "b T"], width: int, base: float) -> Float[Tensor, "b T pairs"]:
    place = at.cpu() if at.device.type == "mps" else at  # which has no float64
    pace = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=place.device) / max(width, 1))
    angle = place.double()[..., None] * pace
    return angle.float().to(at.device) if at.device.type == "mps" else angle


def _pairs(x: Float[Tensor, "B N T width"], pairing: Pairing) -> tuple[Tensor, Tensor]:
    if pairing == "halves":
        half = x.shape[-1] // 2
        return x[..., :half], x[..., half:]
    return x[..., 0::2], x[..., 1::2]


def _unpair(first: Float[Tensor, "B N T pairs"], second: Float[Tensor, "B N T pairs"], pairing: Pairing) -> Float[Tensor, "B N T width"]:
    return torch.cat([first, second], -1) if pairing == "halves" else torch.stack([first, second], -1).flatten(-2)


def _series(heads: int) -> list[float]:
    power = 1 << max(heads.bit_length() - 1, 0)
    series = [2.0 ** (-8 * n / power) for n in range(1, power + 1)][:heads]
    return series if power >= heads else series + _series(2 * power)[0::2][: heads - power]


@cache
def _edges(steps: int, single: int, max_distance: int) -> list[int]:
    """The smallest distance of every bucket after the first shared one.

    The n-th edge is the least d with d ≥ single · (max_distance / single)^(n / steps); both sides to the power of `steps`
    are whole numbers.
    """
    distances = range(max_distance)
    return [bisect_left(distances, single ** (steps - n) * max_distance**n, key=lambda d: d**steps) for n in range(1, steps)]
