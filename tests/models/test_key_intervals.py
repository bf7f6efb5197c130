"""Intervals are found exactly where rows see intervals, and whatever is seen lies inside."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.models.masks import key_intervals as scan
from headwise.models.masks.key_intervals import find_extent

CPU = torch.device("cpu")


def extent(mask):
    return find_extent(lambda rows, keys: mask[:, :, rows, keys], *mask.shape[2:], CPU)


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_everything_seen_lies_inside_and_whole_means_all_inside_is_seen(b, t, s, seed, share):
    mask = torch.rand(b, 1, t, s, generator=torch.Generator().manual_seed(seed)) < share
    found = extent(mask)
    key = torch.arange(s)
    inside = (key >= found.first[..., None]) & (key < found.stop[..., None])
    assert not (mask & ~inside).any()
    assert found.whole == torch.equal(mask, inside)
    alive = mask.any(-1)
    assert torch.equal(mask.gather(-1, found.first[..., None])[..., 0], alive)
    assert torch.equal(mask.gather(-1, (found.stop - 1).clamp(min=0)[..., None])[..., 0], alive)


@pytest.mark.parametrize("cells", [1, 7, 1 << 20])
def test_rows_are_looked_at_some_at_a_time(cells, monkeypatch):
    monkeypatch.setattr(scan, "CELLS", cells)
    mask = torch.ones(2, 1, 11, 7, dtype=torch.bool).tril(2)
    found = extent(mask)
    assert found.whole
    assert found.first.eq(0).all()
    assert found.stop[1, 0].tolist() == [3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 7]


def test_no_rows_and_no_keys():
    assert find_extent(lambda rows, keys: torch.ones(1, 1, 0, 3, dtype=torch.bool), 0, 3, CPU).first.shape == (1, 1, 0)
    assert find_extent(lambda rows, keys: torch.ones(1, 1, 3, 0, dtype=torch.bool), 3, 0, CPU).stop.tolist() == [[[0, 0, 0]]]


GROWTH = """
import torch
from headwise.models.masks.key_intervals import find_extent

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

def rule(rows, keys):
    query, key = torch.arange(9000)[None, None, rows, None], torch.arange(9000)[keys]
    return (query >= key) & (query - 512 < key)

torch.set_num_threads(1)
find_extent(rule, 300, 9000, torch.device("cpu"))
before = peak()
find_extent(rule, 9000, 9000, torch.device("cpu"))
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_scanning_takes_the_memory_of_a_block_not_of_the_plane():
    """The plane has 77 MiB; kept between blocks, small results would make each block take new room."""
    found = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 40, found.stdout
