"""Who may see whom: intervals from causality, windows and offsets; masks; rules that turn out to be intervals."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.attention.attend import compute, make_call
from headwise.attention.call import Call, Tiled, tile_of
from headwise.attention.mask import LazyMask, VisibleKeys, band, positions, reach, visible_keys
from tests.attention import oracle
from tests.attention.backends import every_backend
from tests.attention.problem import normal
from tests.attention.strategies import offsets, windows


def call(offset=(0,), **options) -> Call:
    return Call(scale=1.0, offset=torch.tensor(offset), **options)


@pytest.mark.parametrize(
    ("options", "behind", "ahead"),
    [
        ({}, None, None),
        ({"causal": True}, None, 0),
        ({"window": 3}, 2, None),
        ({"window": 3, "causal": True}, 2, 0),
        ({"window": 0}, -1, None),
        ({"window": -2}, -3, None),
        ({"window": (4, 2)}, 4, 2),
        ({"window": (4, 2), "causal": True}, 4, 0),
        ({"window": (4, -2), "causal": True}, 4, -2),
        ({"window": (None, 2)}, None, 2),
        ({"window": (0, None), "causal": True}, 0, 0),
    ],
)
def test_how_far_a_query_sees(options, behind, ahead):
    assert reach(call(**options)) == (behind, ahead)


def test_positions_follow_the_offset_of_each_row():
    assert positions(call((3, -1)), 4).tolist() == [[3, 4, 5, 6], [-1, 0, 1, 2]]


def test_a_band_by_hand():
    first, stop = band(call((1, 4), causal=True, window=2), 3, 5)
    assert first[:, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert stop[:, 0].tolist() == [[2, 3, 4], [5, 5, 5]]


@given(data=st.data(), batch=st.integers(1, 3), queries=st.integers(1, 9), keys=st.integers(0, 9), causal=st.booleans())
def test_intervals_say_what_the_words_say(data, batch, queries, keys, causal):
    offset, window = data.draw(offsets(batch, queries, keys)), data.draw(windows(keys))
    q, k = torch.zeros(batch, 2, queries, 1), torch.zeros(batch, 2, keys, 1)
    seen = visible_keys(make_call(q, k, causal, offset, window), queries, keys)
    right = oracle.visible((batch, 2, queries, keys), causal, None if offset is None else np.asarray(offset), window)
    assert np.array_equal(seen.tile(slice(0, queries), slice(0, keys)).expand(batch, 2, queries, keys).numpy(), right)
    assert (seen.first >= 0).all()
    assert (seen.stop <= keys).all()
    rows, some = slice(queries // 2, queries), slice(keys // 3, keys)
    assert np.array_equal(seen.tile(rows, some).expand(batch, 2, -1, -1).numpy(), right[:, :, rows, some])


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 1, 1, 7), (1, 3, 5, 1), (2, 3, 5, 7), (1, 1, 5, 7)])
def test_a_part_of_a_plane_keeps_axes_of_length_one(shape):
    plane = normal(*shape)
    part = tile_of(plane, slice(1, 4), slice(2, 6))
    assert torch.equal(part.expand(2, 3, 3, 4), plane.expand(2, 3, 5, 7)[:, :, 1:4, 2:6])


@dataclass(frozen=True, eq=False)
class Whole(Tiled):
    """A plane told tile by tile; remembers how large the largest was."""

    plane: torch.Tensor
    asked: list

    def tile(self, rows, keys):
        part = self.plane[:, :, rows, keys]
        self.asked.append(part.numel())
        return part


@dataclass(frozen=True, eq=False)
class Prefix(LazyMask):
    """The first `known` keys for all, and for the rest a mask that only `rest` knows."""

    known: int
    rest: torch.Tensor
    says: bool = True

    def tile(self, rows, keys):
        j = torch.arange(keys.start, keys.stop)
        return (j < self.known)[None, None, None] & self.rest[:, :, rows, keys]

    def intervals(self):
        if not self.says:
            return None
        queries = self.rest.shape[2]
        none = torch.zeros(1, 1, queries, dtype=torch.long)
        return VisibleKeys(none, none + self.known, None if self.rest.all() else self)


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("open_rest", [True, False])
def test_a_rule_is_cut_with_the_band(says, open_rest):
    rest = torch.ones(1, 1, 5, 9, dtype=torch.bool) if open_rest else normal(1, 1, 5, 9) > 0
    rule = Prefix(4, rest, says)
    seen = visible_keys(call((2,), causal=True, mask=rule), 5, 9)
    i, j = torch.arange(5)[:, None], torch.arange(9)
    right = (j <= i + 2) & (j < 4) & rest[0, 0]
    assert torch.equal(seen.tile(slice(0, 5), slice(0, 9)).expand(1, 1, 5, 9)[0, 0], right)
    assert (seen.mask is None) == (says and open_rest)
    if says:
        assert int(seen.stop.max()) == 4


def test_a_rule_that_does_not_say_its_intervals_is_told():
    class Silent(LazyMask):
        pass

    with pytest.raises(NotImplementedError):
        Silent().intervals()


@every_backend
@pytest.mark.parametrize("rule", [False, True])
def test_kernels_take_masks_and_biases_in_tiles(backend, rule):
    """The same as the planes held whole."""
    q, k, v = normal(2, 4, 40, 8), normal(2, 2, 70, 8, seed=1), normal(2, 2, 70, 6, seed=2)
    bias, rest = normal(1, 4, 40, 70, seed=3), normal(2, 1, 40, 70, seed=4) > -0.5
    mask = rest & (torch.arange(70) < 50)
    names = ("distance", "entropy", "first", "peak", "received")
    usual = make_call(q, k, causal=True, mask=mask, bias=bias, softcap=4.0)
    right = compute(q, k, v, usual, names, backend="reference")
    tiled = replace(usual, mask=Prefix(50, rest) if rule else Whole(mask, []), bias=Whole(bias, []))
    found = compute(q, k, v, tiled, names, backend=backend)
    torch.testing.assert_close(found.output, right.output)
    torch.testing.assert_close(found.lse, right.lse)
    for name in names:
        torch.testing.assert_close(found.statistics[name], right.statistics[name], equal_nan=True)


@every_backend
def test_gradients_through_masks_and_biases_in_tiles(backend):
    q, k, v = (x.requires_grad_() for x in (normal(1, 2, 20, 4), normal(1, 1, 30, 4, seed=1), normal(1, 1, 30, 3, seed=2)))
    bias, mask = normal(1, 2, 20, 30, seed=3), normal(1, 1, 20, 30, seed=4) > 0
    usual = make_call(q, k, mask=mask, bias=bias)
    tiled = replace(usual, mask=Whole(mask, []), bias=Whole(bias, []))
    right = torch.autograd.grad(compute(q, k, v, usual, (), "reference").output.square().sum(), (q, k, v))
    found = torch.autograd.grad(compute(q, k, v, tiled, (), backend).output.square().sum(), (q, k, v))
    torch.testing.assert_close(found, right)


def test_stream_never_asks_for_a_whole_plane():
    q, k = normal(1, 1, 900, 4, dtype=torch.float32), normal(1, 1, 900, 4, seed=1, dtype=torch.float32)
    asked: list[int] = []
    plane = Whole(torch.ones(1, 1, 900, 900, dtype=torch.bool), asked)
    compute(q, k, k, replace(make_call(q, k, causal=True), mask=plane), ("entropy",), "stream")
    assert asked
    assert max(asked) <= 900 * 900 / 3


@pytest.mark.parametrize("window", [5, (3, 1)])
def test_keys_outside_every_window_are_never_visited(window):
    """With a window of a few keys, hardly more than those of each block of rows are asked for."""
    q, k = normal(1, 1, 2000, 4, dtype=torch.float32), normal(1, 1, 2000, 4, seed=1, dtype=torch.float32)
    asked: list[int] = []
    plane = Whole(torch.ones(1, 1, 2000, 2000, dtype=torch.bool), asked)
    compute(q, k, k, replace(make_call(q, k, causal=True, window=window), mask=plane), (), "stream")
    assert 0 < sum(asked) < 2000 * 2000 / 2
