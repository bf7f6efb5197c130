"""A budget is kept to, what was used longest ago goes first, and a part of a larger tensor does not keep the whole."""

import pytest
import torch

from headwise.attention.call import Call
from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.models.runs.activation_store import ActivationStore, StoredCall, _compact, parse_bytes


def call(seed=0, bias=None):
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(1, 2, 5, 4, generator=generator) for _ in range(2))
    return StoredCall(query, key, torch.zeros(1, 2, 5), Call(1.0, torch.zeros(1, dtype=torch.int64), bias=bias), None, None)


SIZE = ActivationStore._size([call()])


def test_a_call_is_offered_while_there_is_room():
    store = ActivationStore(2 * SIZE)
    for index in range(4):
        store.offer(index, call(index))
    assert list(store.calls) == [0, 1]
    assert store.bytes == 2 * SIZE


def test_what_was_used_longest_ago_goes_first():
    store = ActivationStore(2 * SIZE)
    store.put(0, call(0))
    store.put(1, call(1))
    assert store.get(0) is not None
    store.put(2, call(2))
    assert list(store.calls) == [0, 2]
    assert store.get(1) is None


def test_one_that_can_never_fit_drives_nothing_out():
    store = ActivationStore(SIZE)
    store.put(0, call(0))
    store.put(1, call(1, bias=torch.zeros(1, 2, 5, 5)))
    assert list(store.calls) == [0]


def test_what_calls_share_counts_once():
    bias = torch.zeros(1, 2, 50, 50)
    one, both = ActivationStore._size([call(0, bias)]), ActivationStore._size([call(0, bias), call(1, bias)])
    assert both - one == SIZE


def test_a_part_of_a_larger_tensor_is_copied():
    fused = torch.randn(2, 5, 36)
    part = fused[..., :12].unflatten(-1, (3, 4)).transpose(1, 2)
    own = _compact(part)
    assert torch.equal(own, part)
    assert own.untyped_storage().nbytes() == part.numel() * 4
    assert _compact(fused.transpose(0, 1)).data_ptr() == fused.data_ptr()


@pytest.mark.parametrize(("memory", "right"), [(0, 0), (5, 5), ("7", 7), ("512MiB", 512 << 20), (" 2 GB ", 2 * 10**9), ("0.5KiB", 512), ("3B", 3)])
def test_bytes(memory, right):
    assert parse_bytes(memory) == right


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("memory", [-1, "", "GiB", "1.2.3GiB", "1 gib", ".", "-1GiB"])
def test_no_amount_of_memory(memory):
    with pytest.raises(ArgumentError, match="memory must be bytes or a number with one of B, kB, MB"):
        parse_bytes(memory)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("memory", [None, True, 1.5])
def test_memory_of_another_type(memory):
    with pytest.raises(ArgumentTypeError, match="memory must be bytes or a text like '1GiB', got"):
        parse_bytes(memory)
