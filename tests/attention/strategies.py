"""Problems for Hypothesis: every shape, mask, window, offset, bias, cap, sink, scale, dtype and memory layout."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.attention.problem import Problem, normal

LENGTHS = (7, 11, 3, 13, 5, 31, 64, 65, 97, 2, 1)
WHOLE = [""] * 14
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
seeds = st.integers(0, 2**31)


@st.composite
def problems(draw: st.DrawFn, dtypes=DTYPES, lengths=LENGTHS, plain: bool = False) -> Problem:
    """`plain` leaves out empty axes, odd layouts and loud queries."""
    gone = draw(st.sampled_from([*WHOLE, *("" if plain else "BHGTSDE")]))  # the axis of length 0, where there is one
    batch = 0 if gone == "B" else draw(st.sampled_from([2, 3, 1]))
    groups = 0 if gone == "G" else draw(st.sampled_from([2, 3, 1]))
    heads = 0 if gone in "HG" and gone else groups * draw(st.sampled_from([2, 1, 3]))
    queries, keys = (0 if gone == axis else draw(st.sampled_from(lengths)) for axis in "TS")
    width, wide = (0 if gone == axis else draw(st.sampled_from([3, 5, 8, 2, 1])) for axis in "DE")
    dtype = draw(st.sampled_from(dtypes))
    shape = (batch, heads, queries, keys)

    options = {}
    options["causal"] = draw(st.booleans())
    options["query_offset"] = draw(offsets(batch, queries, keys))
    options["window"] = draw(windows(keys))
    options["scale"] = draw(st.sampled_from([None, None, 0.3, 1.0, -0.5, 0.0, 2.0])) if width else draw(st.sampled_from([0.7, -1.0]))
    options["softcap"] = draw(st.sampled_from([None, None, 0.5, 2.0, 30.0]))
    if draw(st.booleans()):
        options["mask"] = draw(masks(shape))
    if draw(st.booleans()):
        options["bias"] = draw(biases(shape, dtype))
    if draw(st.booleans()):
        options["sink"] = normal(heads, seed=draw(seeds), dtype=draw(st.sampled_from([dtype, torch.float32]))) * draw(st.sampled_from([1.0, 6.0]))
    options["segments"] = torch.randint(-1, draw(st.integers(1, 4)), (batch, keys), generator=torch.Generator().manual_seed(draw(seeds)))
    loud = 1.0 if plain else draw(st.sampled_from([1.0, 1.0, 3.0]))
    tensors = (
        draw(laid_out((batch, heads, queries, width), dtype, loud, plain)),
        draw(laid_out((batch, groups, keys, width), dtype, loud, plain)),
        draw(laid_out((batch, groups, keys, wide), dtype, 1.0, plain)),
    )
    return Problem(*tensors, {name: value for name, value in options.items() if value is not None})


def offsets(batch: int, queries: int, keys: int) -> st.SearchStrategy:
    """Nothing, one number or one a row: before the keys, among them, beyond them."""
    near = st.integers(keys - queries - 2, keys + 2)
    one = near | st.integers(0, keys) | st.integers(-queries - 3, keys + 5) | st.just(100_003)
    rows = st.lists(near | one, min_size=batch, max_size=batch)
    return st.none() | st.none() | one | (rows.map(lambda row: torch.tensor(row)) if batch else st.none())


def windows(keys: int) -> st.SearchStrategy:
    side = st.none() | st.integers(0, keys + 2) | st.integers(-3, 3)
    return st.none() | st.none() | st.integers(1, keys + 2) | st.integers(-2, 3) | st.tuples(side, side)


@st.composite
def broadcastable(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`: axes missing in front, axes of length 1 anywhere."""
    kept = shape[draw(st.integers(0, 4)) :]
    return tuple(1 if draw(st.booleans()) else n for n in kept)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> Tensor:
    seen = draw(st.sampled_from([0.8, 0.3, 0.8, 1.0, 0.5, 0.0]))
    generator = torch.Generator().manual_seed(draw(seeds))
    return torch.rand(draw(broadcastable(shape)), generator=generator) < seen


@st.composite
def biases(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    mine = draw(broadcastable(shape))
    bias = normal(*mine, seed=draw(seeds), dtype=draw(st.sampled_from([dtype, torch.float32]))) * draw(st.sampled_from([0.5, 4.0]))
    hidden = draw(st.sampled_from([0.0, 0.0, 0.4]))
    return bias.masked_fill(torch.rand(mine, generator=torch.Generator().manual_seed(draw(seeds))) < hidden, -torch.inf)


@st.composite
def laid_out(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype, loud: float, plain: bool) -> Tensor:
    """Random numbers in some memory layout: contiguous, heads last, every second one, or one head for all."""
    seed, layout = draw(seeds), "contiguous" if plain else draw(st.sampled_from(["contiguous", "heads last", "steps", "width first", "one head", "one row"]))
    b, h, n, d = shape
    if layout == "heads last":
        x = normal(b, n, h, d, seed=seed, dtype=dtype).transpose(1, 2)
    elif layout == "width first":
        x = normal(b, h, d, n, seed=seed, dtype=dtype).mT
    elif layout == "steps":
        x = normal(b, h, 2 * n + 1, 2 * d + 1, seed=seed, dtype=dtype)[:, :, 1::2, 1::2]
    elif layout == "one head":
        x = normal(b, 1, n, d, seed=seed, dtype=dtype).expand(shape)
    elif layout == "one row":
        x = normal(1, h, n, d, seed=seed, dtype=dtype).expand(shape)
    else:
        x = normal(*shape, seed=seed, dtype=dtype)
    return x * loud if loud != 1 else x
