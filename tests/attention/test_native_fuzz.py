"""Shapes and strides drawn at random: tensors cut out of larger ones full of NaN give, to the last bit, what their copies give.

A read outside a tensor would meet a NaN; under `make sanitize` it also stops the test.
"""

import random

import pytest
import torch

from headwise.attention.attend import attend, make_call
from headwise.attention.call import MapRegion
from headwise.attention.kernels.native import pool_weights as native_pool
from headwise.attention.kernels.native.library import compiled

pytestmark = pytest.mark.skipif(compiled() is None, reason="the native kernel is not built here")
LENGTHS = (0, 1, 2, 3, 7, 16, 31, 64, 65, 128, 255, 256, 257, 300, 513)


def cut_out(draw: random.Random, numbers: torch.Tensor) -> torch.Tensor:
    """The same numbers inside a larger tensor: axes in some order, with steps and margins, NaN (or True) all around."""
    order = draw.sample(range(numbers.dim()), numbers.dim())
    steps, margins = [draw.choice([1, 1, 2, 3]) for _ in order], [draw.choice([0, 0, 1, 5]) for _ in order]
    sizes = [numbers.shape[axis] * steps[axis] + 2 * margins[axis] for axis in order]
    around = torch.full(sizes, True if numbers.dtype == torch.bool else torch.nan, dtype=numbers.dtype)
    around = around.permute([order.index(axis) for axis in range(numbers.dim())])
    inside = tuple(slice(m, m + n * step, step) for n, step, m in zip(numbers.shape, steps, margins, strict=True))
    around[inside] = numbers
    return around[inside]


def drawn(seed: int):
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    b, g, r = draw.choice([1, 2, 3]), draw.choice([1, 2, 3]), draw.choice([1, 2, 3, 7])
    t, s, d, e = draw.choice(LENGTHS[:-3]), draw.choice(LENGTHS), draw.choice([1, 3, 8, 17, 33, 64]), draw.choice([1, 5, 8, 16, 40])
    dtype = draw.choice([torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16])
    shape = (b, g * r, t, s)

    def normal(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)

    def some(sizes):
        return [n if draw.random() < 0.7 else 1 for n in sizes]

    tensors = {"query": normal(*shape[:3], d), "key": normal(b, g, s, d), "value": normal(b, g, s, e)}
    if draw.random() < 0.5:
        tensors["mask"] = torch.rand(some(shape), generator=generator) < 0.6
    if draw.random() < 0.5:
        tensors["bias"] = normal(*some(shape))
    if draw.random() < 0.4:
        tensors["sink"] = normal(g * r)
    options = {"causal": draw.random() < 0.5, "window": draw.choice([None, None, 3, (40, 7), (None, -2)])}
    return draw, tensors, options


@pytest.mark.parametrize("seed", range(120))
def test_where_the_numbers_lie_does_not_matter(seed):
    draw, tensors, options = drawn(seed)
    views = {name: cut_out(draw, x) for name, x in tensors.items()}
    right = attend(**tensors, **options, statistics=("all", "received"), backend="native")
    found = attend(**views, **options, statistics=("all", "received"), backend="native")
    same = {"equal_nan": True, "rtol": 0, "atol": 0}
    torch.testing.assert_close(found.output, right.output, **same)
    torch.testing.assert_close(found.lse, right.lse, **same)
    for name, number in right.statistics.items():
        torch.testing.assert_close(found.statistics[name], number, **same)

    t, s = right.output.shape[2], tensors["key"].shape[2]
    start, first = draw.randint(0, t), draw.randint(0, s)
    area = MapRegion(slice(start, draw.randint(start, t)), slice(first, draw.randint(first, s)), draw.choice([1, 2, 5, 300]), draw.random() < 0.5)
    calls = [make_call(x["query"], x["key"], mask=x.get("mask"), bias=x.get("bias"), sink=x.get("sink"), **options) for x in (tensors, views)]
    pictures = [native_pool.pool(x["query"], x["key"], right.lse, call, area) for x, call in zip((tensors, views), calls, strict=True)]
    torch.testing.assert_close(*pictures, **same)
