"""Position encodings: rotary embeddings of q and k, and two biases on the scores. Each is a value.

Query i is at position p = offset + i, key j at j. All depend on j - p alone, so that shifting a whole text changes nothing. No
state is kept between calls: angles, slopes and buckets are computed from the positions that are passed in.
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
    """No position encoding (NoPE); the base class of those that are, each of which overrides one of the two methods."""

    def rotate(self, x: Float[Tensor, "B N T D"], positions: Int[Tensor, "#B T"]) -> Float[Tensor, "B N T D"]:
        """Encode positions in queries or keys: those of x are at `positions`."""
        return x

    def bias(self, offset: Int[Tensor, " B"], heads: int, dtype: torch.dtype) -> "PositionBias | None":
        """The bias on the scores of queries whose first is at `offset`, or None."""
        return None


NOPE = PositionEncoding()


@dataclass(frozen=True)
class Rotary(PositionEncoding):
    """Rotary position embeddings (RoPE): pairs of features are rotated by angles proportional to the position, so that q·k depends on j - p.

        pair m of a token at p is rotated by p · base^(-2m / width)

    Angles are computed in float64: in float32 they would be off by 0.004 radians at position 100,000.

    Args:
        base: sets the range of frequencies; RoPE's theta.
        width: number of features that are rotated, from the first on; all of them when absent.
        pairing: "halves" pairs feature m with m + width/2 (Llama, GPT-NeoX), "neighbours" 2m with 2m + 1 (the paper,
            GPT-J). Parameters trained with one are wrong with the other.

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
            raise ArgumentError(f"width must be even, since features are rotated in pairs, got {self.width}. Choose {self.width + 1} or leave it out.")
        if self.pairing not in get_args(Pairing):
            raise ArgumentError(f"pairing must be 'halves' or 'neighbours', got {self.pairing!r}. Llama pairs halves.")

    def rotate(self, x: Float[Tensor, "B N T D"], positions: Int[Tensor, "#B T"]) -> Float[Tensor, "B N T D"]:
        width = x.shape[-1] if self.width is None else self.width
        if width > x.shape[-1] or width % 2:
            raise ShapeError(f"width must be even and at most that of a head, got {width} and {x.shape[-1]}. Pass Rotary(width=...).")
        angle = _angles(positions, width, self.base)[:, None]
        first, second = _pairs(x[..., :width].to(accumulation_dtype(x.dtype)), self.pairing)
        cos, sin = angle.cos().to(first.dtype), angle.sin().to(first.dtype)
        rotated = _unpair(first * cos - second * sin, first * sin + second * cos, self.pairing)
        return torch.cat([rotated.to(x.dtype), x[..., width:]], -1)


@dataclass(frozen=True)
class Alibi(PositionEncoding):
    """Attention with linear biases: bias = -slope · |p - j|, with a slope for each head.

    Args:
        slopes: one for each head. When absent those of the authors' code: 2^(-8/n), 2^(-16/n), … for n heads, n a power of
            two; otherwise those of the next smaller power of two, then every other one of those for twice as many heads.

    References:
        Press et al. 2022, section 3; head counts that are not powers of two: their code, which the paper's text leaves open.

    Example:
        >>> Alibi().slopes_of(3)
        (0.0625, 0.00390625, 0.25)
    """

    slopes: tuple[float, ...] | None = None

    def slopes_of(self, heads: int) -> tuple[float, ...]:
        """The slope of each of so many heads."""
        if self.slopes is None:
            return tuple(_series(heads))
        if len(self.slopes) != heads:
            raise ShapeError(f"slopes must have one number for each of {heads} heads, got {len(self.slopes)}. Leave them out for the published ones.")
        return self.slopes

    def bias(self, offset: Int[Tensor, " B"], heads: int, dtype: torch.dtype) -> "PositionBias":
        return _AlibiBias(offset, torch.tensor(self.slopes_of(heads), device=offset.device, dtype=dtype))


@dataclass(frozen=True, eq=False)
class RelativeBuckets(PositionEncoding):
    """T5's relative position bias: a learned number for each head and each bucket of distances.

    Of n buckets (n/2 for each direction if bidirectional), the first half has one distance each: 0, 1, 2, …; the others grow
    geometrically up to `max_distance`, beyond which all distances share the last. Their edges are computed in integers, without
    rounding.

    Args:
        table: the learned numbers.
        max_distance: in tokens.
        bidirectional: keys ahead of the query have buckets of their own; otherwise they count as distance 0.

    Raises:
        ArgumentError: too few buckets, or a max_distance within the buckets of one distance each.

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
        """The bucket of a key that is so many tokens ahead of the query; negative for behind."""
        distance = ahead.abs() if self.bidirectional else (-ahead).clamp(min=0)
        edges = torch.tensor(_edges(self._one_way - self._single, self._single, self.max_distance), dtype=torch.int64, device=ahead.device)
        shared = self._single + torch.bucketize(distance, edges, right=True)
        found = torch.where(distance < self._single, distance, shared)
        return found + self._one_way * (ahead > 0) if self.bidirectional else found

    def bias(self, offset: Int[Tensor, " B"], heads: int, dtype: torch.dtype) -> "PositionBias":
        if self.table.shape[1] != heads:
            raise ShapeError(f"table must have one column for each of {heads} heads, got {list(self.table.shape)}. Its shape is [buckets, heads].")
        return _BucketedBias(offset, self.table.to(offset.device, dtype), self)


@dataclass(frozen=True, eq=False)
class PositionBias(Tiled):
    """A bias that is a function of positions and of some learned or fixed numbers, evaluated tile by tile.

    Attributes:
        offset: p of the first query, for each batch row.
        numbers: the slopes or the table. Where these have a gradient the bias must be materialised: tiles have none.
    """

    offset: Int[Tensor, " B"]
    numbers: Tensor

    def ahead(self, rows: slice, keys: slice) -> Int[Tensor, "b t s"]:
        """j - p, with one batch row where all have the same offset."""
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
    """The sum of a position bias and another bias."""

    position_bias: PositionBias
    other: Bias | Tiled

    def tile(self, rows: slice, keys: slice) -> Float[Tensor, "b H t s"]:
        return self.position_bias.tile(rows, keys) + tile_of(self.other, rows, keys)


def add_position_bias(bias: Bias | Tiled | None, position_bias: PositionBias | None, queries: int, keys: int) -> Bias | Tiled | None:
    """The sum of a call's bias and a position bias: evaluated tile by tile, or materialised where one of them has a gradient."""
    if position_bias is None:
        return bias
    total = position_bias if bias is None else _Sum(position_bias, bias)
    differentiable = any(isinstance(numbers, Tensor) and numbers.requires_grad for numbers in (position_bias.numbers, bias))
    return total.tile(slice(0, queries), slice(0, keys)) if differentiable and torch.is_grad_enabled() else total


def _angles(positions: Int[Tensor, "b T"], width: int, base: float) -> Float[Tensor, "b T pairs"]:
    p = positions.cpu() if positions.device.type == "mps" else positions  # which has no float64
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=p.device) / max(width, 1))
    angle = p.double()[..., None] * frequencies
    return angle.float().to(positions.device) if positions.device.type == "mps" else angle


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
    """The smallest distance of every shared bucket after the first.

    The n-th is the least d with d ≥ single · (max_distance / single)^(n / steps); raised to the power of `steps` both sides
    are integers.
    """
    distances = range(max_distance)
    return [bisect_left(distances, single ** (steps - n) * max_distance**n, key=lambda d: d**steps) for n in range(1, steps)]
