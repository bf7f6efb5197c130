"""The cache as a value."""

import pytest
import torch

from headwise.attention.kv_cache import KVCache
from headwise.errors import ArgumentTypeError, ShapeError
from tests.attention.problem import normal


def test_appending_leaves_the_old_one_as_it_was():
    old = KVCache(normal(2, 3, 5, 4, seed=1), normal(2, 3, 5, 7, seed=2))
    kept = old.k.clone()
    new = old.append(normal(2, 3, 2, 4, seed=3), normal(2, 3, 2, 7, seed=4))
    assert (old.length, new.length) == (5, 7)
    new.k.zero_()
    assert torch.equal(old.k, kept)
    assert torch.equal(new.v[:, :, 5:], normal(2, 3, 2, 7, seed=4))


def test_two_ways_on_from_one_cache():
    """A beam search forks: what one branch appends the other never sees."""
    start = KVCache(normal(1, 2, 3, 4), normal(1, 2, 3, 4))
    a, b = (start.append(*(torch.full((1, 2, 1, 4), number, dtype=torch.float64) for _ in "kv")) for number in (1.0, 2.0))
    assert a.k[0, 0, 3].tolist() == [1.0] * 4
    assert b.k[0, 0, 3].tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("k", "v", "error", "message"),
    [
        (
            (2, 3, 1, 5),
            (2, 3, 1, 7),
            ShapeError,
            r"k must be \[2, 3, any length, 4\] like the cache, got \[2, 3, 1, 5\]\. Use the cache of this layer and batch\.",
        ),
        ((2, 3, 1, 4), (1, 3, 1, 7), ShapeError, r"v must be \[2, 3, any length, 7\] like the cache, got \[1, 3, 1, 7\]"),
        ((2, 3, 4), (2, 3, 1, 7), ShapeError, r"k must be \[2, 3, any length, 4\] like the cache, got \[2, 3, 4\]"),
        ((2, 3, 1, 4), (2, 3, 2, 7), ShapeError, r"k and v must have the same length, got 1 and 2\. Append both of the same tokens\."),
    ],
)
def test_what_does_not_fit_is_refused(k, v, error, message):
    cache = KVCache(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 5, 7))
    with pytest.raises(error, match=message):
        cache.append(torch.zeros(k), torch.zeros(v))


def test_another_dtype_is_refused():
    cache = KVCache(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 5, 7))
    with pytest.raises(ArgumentTypeError, match=r"v must have the dtype of the cache, got torch\.float16 and torch\.float32\. Convert one of them\."):
        cache.append(torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 7, dtype=torch.float16))
