"""A described mask says what transformers' own mask tensor says, without being one until a model computes with it."""

from threading import Barrier, Thread

import pytest
import torch
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    blockwise_overlay,
    causal_mask_function,
    chunked_causal_mask_function,
    eager_mask,
    or_masks,
    packed_sequence_mask_function,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from headwise.attention.call import Call
from headwise.attention.mask import visible_keys
from headwise.models.masks.mask_description import MaskDescription, MaskHandle

PACKED = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]])
BLOCKS = torch.tensor([[-1, 0, 0, 0, -1, -1, 1, 1, -1, -1, -1], [0, 0, -1, -1, -1, 1, 1, 1, 1, -1, -1]])
RULES = {
    "causal": causal_mask_function,
    "both ways": bidirectional_mask_function,
    "window": sliding_window_causal_mask_function(3),
    "window both ways": sliding_window_bidirectional_mask_function(2),
    "chunks": chunked_causal_mask_function(4, torch.tensor([0, 2])),
    "packed": and_masks(causal_mask_function, packed_sequence_mask_function(PACKED)),
    "blocks": or_masks(causal_mask_function, blockwise_overlay(BLOCKS)),
    "every other": lambda b, h, q, kv: (kv % 2 == 0) & (kv <= q),
}
PADDINGS = {
    "none": None,
    "all real": torch.ones(2, 11, dtype=torch.bool),
    "right": torch.arange(11).repeat(2, 1) < torch.tensor([[11], [6]]),
    "left": torch.arange(11).repeat(2, 1) >= torch.tensor([[0], [4]]),
    "holes": torch.arange(11).repeat(2, 1) % torch.tensor([[5], [3]]) != 1,
    "too short": torch.ones(2, 9, dtype=torch.bool),
}
INTERVALS = {"causal", "both ways", "window", "window both ways", "chunks", "packed", "blocks"}


def stated(rule, padding, **more):
    return {
        "batch_size": 2, "q_length": 11, "kv_length": 11, "mask_function": RULES[rule], "attention_mask": PADDINGS[padding], "dtype": torch.float32
    } | more  # fmt: skip


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("rule", RULES)
def test_tiles_and_intervals_are_transformers_own_mask(rule, padding):
    says = stated(rule, padding)
    right = (eager_mask(**says) == 0).expand(2, 1, 11, 11)
    description = MaskDescription(**says)
    whole = slice(0, 11)
    assert torch.equal(description.tile(whole, whole).expand_as(right), right)
    assert torch.equal(description.tile(slice(3, 7), slice(2, 9)).expand(2, 1, 4, 7), right[:, :, 3:7, 2:9])
    seen = description.intervals()
    assert torch.equal(seen.tile(whole, whole).expand_as(right), right)
    assert (seen.mask is None) == (rule in INTERVALS and padding != "holes")
    assert description.intervals() is seen


@pytest.mark.parametrize("rule", ["causal", "window"])
@pytest.mark.parametrize(("q_offset", "kv_offset", "queries", "keys"), [(7, 0, 4, 11), (9, 5, 2, 6), (10, 4, 1, 7)])
def test_with_a_cache_queries_stand_behind_keys(rule, q_offset, kv_offset, queries, keys):
    says = stated(rule, "left", q_length=queries, kv_length=keys, q_offset=q_offset, kv_offset=kv_offset)
    right = eager_mask(**says) == 0
    description = MaskDescription(**says)
    assert description.offset == q_offset - kv_offset
    assert torch.equal(description.tile(slice(0, queries), slice(0, keys)).expand_as(right), right)
    call = Call(1.0, torch.tensor([description.offset] * 2), mask=description)
    assert torch.equal(visible_keys(call, queries, keys).tile(slice(0, queries), slice(0, keys)).expand_as(right), right)


def test_functions_that_cannot_broadcast_are_mapped():
    def rule(b, h, q, kv):
        return PACKED[b][q] == PACKED[b][kv]

    says = stated("causal", "none", mask_function=and_masks(causal_mask_function, rule), use_vmap=True)
    description = MaskDescription(**says)
    right = eager_mask(**says) == 0
    assert torch.equal(description.intervals().tile(slice(0, 11), slice(0, 11)), right)


def test_a_mask_function_is_asked_once_for_all_layers():
    request = []

    def rule(b, h, q, kv):
        request.append(1)
        return kv <= q

    description = MaskDescription(**stated("causal", "none", mask_function=rule))
    start = Barrier(4)
    found = []

    def ask():
        start.wait(10)
        found.append(description.intervals())

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(request) == 1
    assert all(seen is found[0] for seen in found)


def test_told_is_a_tensor_by_its_looks_only():
    told = MaskHandle(MaskDescription(**stated("causal", "right")))
    assert isinstance(told, torch.Tensor)
    assert told.shape == (2, 1, 11, 11)
    assert told.dtype == torch.float32
    assert told.dim() == 4
    assert repr(told) == "MaskHandle([2, 1, 11, 11])"
    for same in (told[:, :, :, :11], told.to(torch.float32), told.detach(), told[..., :20]):
        assert isinstance(same, MaskHandle)
        assert same.rule is told.rule
    assert not told.rule.written


@pytest.mark.parametrize(
    "use",
    [
        lambda mask: mask + 1,
        lambda mask: mask[:, :, :, :7],
        lambda mask: mask[:, :, -1:],
        lambda mask: torch.cat([mask, mask], -1),
        lambda mask: mask.expand(2, 3, 11, 11),
        lambda mask: mask.to(torch.float64),
        lambda mask: mask.masked_fill(mask == 0, 5),
        lambda mask: (mask == 0).any(-1),
    ],
)
def test_a_model_that_computes_with_the_mask_gets_eager_s(use):
    says = stated("window", "left")
    told = MaskHandle(MaskDescription(**says))
    assert torch.equal(use(told), use(eager_mask(**says)))
    assert told.rule.written  # from now on the tensor counts, as the model may have written into it


def test_what_a_model_writes_into_the_mask_is_what_counts():
    told = MaskHandle(MaskDescription(**stated("causal", "none")))
    told[:, :, :, 0] = -7.0
    assert (told.rule.whole()[:, :, :, 0] == -7).all()
    assert told.rule.written
