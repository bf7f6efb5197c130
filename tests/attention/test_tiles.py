"""Weights of a rectangle, pooled cell by cell: by every kernel that can, and in torch, as from the whole map."""

from functools import cache
from unittest.mock import patch

import pytest
import torch

from headwise.attention import weights as tiles
from headwise.attention.attend import compute
from headwise.attention.call import Call, MapRegion, Tiled
from headwise.attention.kernels.native import attend_call as native_call
from headwise.attention.kernels.native import pool_weights as native_pool
from headwise.attention.kernels.native.library import compiled
from tests.attention.problem import normal

built = pytest.mark.skipif(compiled() is None, reason="the native kernel is not built here")
KERNELS = [pytest.param(native_pool.pool, id="native", marks=built), pytest.param(tiles.pooled_in_torch, id="torch")]
B, H, G, T, S, D = 2, 6, 2, 131, 563, 17
OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (90, 20), "softcap": 2.0},
    "mask": {"mask": normal(2, 1, T, S, seed=3) > 0.3},
    "bias": {"bias": normal(1, H, T, S, seed=4, dtype=torch.float32), "causal": True},
    "sink": {"sink": normal(H, seed=5, dtype=torch.float32), "window": (-1, 0)},
}
AREAS = {
    "a leaf": MapRegion(slice(20, 90), slice(300, 450)),
    "all, coarse": MapRegion(slice(0, T), slice(0, S), cell=16),
    "all, mean": MapRegion(slice(0, T), slice(0, S), cell=8, mean=True),
    "ragged": MapRegion(slice(3, 97), slice(11, 540), cell=7, mean=True),
    "one cell": MapRegion(slice(0, T), slice(0, S), cell=1024),
    "nothing": MapRegion(slice(5, 9), slice(40, 40)),
}


def problem(dtype=torch.float32, **options):
    query, key = normal(B, H, T, D, seed=0, dtype=dtype) * 2, normal(B, G, S, D, seed=1, dtype=dtype)
    call = Call(scale=D**-0.5, offset=torch.tensor([400, 432]), **options)
    return query, key, compute(query, key, key, call, (), "reference").lse, call


def whole_map(query, key, call):
    """The weights as the reference mixes the identity with them."""
    identity = torch.eye(S, dtype=torch.float64).expand(B, G, S, S)
    return compute(query.double(), key.double(), identity, call, (), "reference").output


@cache
def settled(options):
    """A problem and its whole map of weights, made once."""
    query, key, lse, call = problem(**OPTIONS[options])
    return query, key, lse, call, whole_map(query, key, call)


def cell_by_cell(weights, area):
    if area.padding is not None:
        weights = weights.masked_fill(area.padding[:, None, :, None], 0)
    part = weights[:, :, area.rows, area.keys]
    found = torch.empty(B, H, *area.shape, dtype=weights.dtype)
    for line in range(area.shape[0]):
        for column in range(area.shape[1]):
            cell = part[:, :, line * area.cell : (line + 1) * area.cell, column * area.cell : (column + 1) * area.cell].flatten(2)
            found[:, :, line, column] = cell.mean(-1) if area.mean else cell.amax(-1)
    return found


@pytest.mark.parametrize("pool", KERNELS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("area", AREAS)
def test_a_cell_is_the_largest_or_the_mean_weight_under_it(pool, options, area):
    query, key, lse, call, weights = settled(options)
    with patch.object(tiles, "WEIGHTS_AT_ONCE", B * H * 300 * 40):
        found = pool(query, key, lse, call, AREAS[area])
    right = cell_by_cell(weights, AREAS[area])
    assert found.dtype == lse.dtype
    torch.testing.assert_close(found.double(), right, rtol=0, atol=5e-6)


@pytest.mark.parametrize("pool", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types(pool, dtype):
    query, key, lse, call = problem(dtype, causal=True)
    found, right = pool(query, key, lse, call, AREAS["ragged"]), cell_by_cell(whole_map(query, key, call), AREAS["ragged"])
    torch.testing.assert_close(found.double(), right, rtol=0, atol=1e-12 if dtype == torch.float64 else 5e-6)


@pytest.mark.parametrize("pool", KERNELS)
@pytest.mark.parametrize("mean", [False, True])
def test_padding_counts_as_nothing(pool, mean):
    query, key, lse, call = problem(causal=True)
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[0, :40] = padding[1, 100:] = True
    area = MapRegion(slice(0, T), slice(0, S), cell=20, mean=mean, padding=padding)
    found = pool(query, key, lse, call, area)
    assert (found[0, :, :2] == 0).all()
    torch.testing.assert_close(found.double(), cell_by_cell(whole_map(query, key, call), area), rtol=0, atol=5e-6)


@pytest.mark.parametrize("pool", KERNELS)
@pytest.mark.parametrize("mean", [False, True])
def test_a_nan_spoils_the_cells_that_see_it_alone(pool, mean):
    query, key, _, call = problem(causal=True)
    query[0, 1, 50] = torch.nan
    query[1, 2, 60, 0] = torch.inf
    lse = compute(query, key, key, call, (), "reference").lse
    found = pool(query, key, lse, call, MapRegion(slice(0, T), slice(0, S), cell=10, mean=mean))
    bad = torch.zeros_like(found, dtype=torch.bool)
    bad[0, 1, 5, :46] = bad[1, 2, 6, :50] = True  # query 50 stands at 450 and sees 451 keys, query 60 at 492
    assert torch.equal(found.isnan(), bad)


class Made(Tiled):
    def __init__(self, plane):
        self.plane, self.largest = plane, 0

    def tile(self, rows, keys):
        part = self.plane[:, :, rows, keys]
        self.largest = max(self.largest, part.numel())
        return part


@built
def test_planes_that_are_code_are_made_in_strips():
    mask, bias = Made(normal(1, H, T, S, seed=6) > 0), Made(normal(B, 1, T, S, seed=7, dtype=torch.float32))
    query, key, lse, call = problem(mask=mask.plane, bias=bias.plane)
    whole = native_pool.pool(query, key, lse, call, AREAS["all, coarse"])
    made = Call(scale=call.scale, offset=call.offset, mask=mask, bias=bias)
    with patch.object(native_call, "TILED_BYTES", 4 * B * H * S * 40):
        found = native_pool.pool(query, key, lse, made, AREAS["all, coarse"])
    assert mask.largest <= H * 32 * S
    assert torch.equal(found, whole)


@built
def test_the_fastest_that_can_is_asked():
    query, key, lse, call = problem(causal=True)
    area = AREAS["ragged"]
    assert torch.equal(tiles.pooled_weights(query, key, lse, call, area), native_pool.pool(query, key, lse, call, area))
    with patch.object(native_call, "compiled", lambda: None):
        assert torch.equal(tiles.pooled_weights(query, key, lse, call, area), tiles.pooled_in_torch(query, key, lse, call, area))
    with pytest.raises(ValueError, match="cells must lie among the keys"):
        native_pool.pool(query, key, lse, call, MapRegion(slice(0, 3), slice(0, S + 1)))
