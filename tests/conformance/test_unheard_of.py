"""Wrong attentions that are in no catalogue, all caught; and honest ones of an unusual kind, accused by nobody."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from headwise.attention.dense import dot_product, repeat_kv, softmax, weighted_sum
from headwise.conformance.check import DETECT_MOST
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.invariants.invariant import first_finding, invariants
from headwise.conformance.mutations.mutable_attention import MutableAttention, call, k, output, raw_scores, scores, used_weights, v, visible, weights, z

Steps = dict[str, Callable[[Any], Any]]


def second_text_sees_one_key_too_many(at):
    """One batch row only."""
    p = at.call.offset[:, None, None, None] + torch.arange(at.q.shape[2])[:, None]
    extra = (torch.arange(at.k.shape[2]) == p + 1) & (torch.arange(len(at.q)) == 1)[:, None, None, None]
    return visible(at) | (extra if at.call.causal and at.call.mask is None else torch.zeros_like(extra))


def offset_of_a_tensor_is_forgotten(at):
    given = isinstance(at.problem.query_offset, torch.Tensor)
    return replace(call(at), offset=torch.zeros_like(call(at).offset)) if given else call(at)


def block_edge_counts_twice(at):
    """The last key of a block of 64 is read twice, once there are more than one block."""
    honest = scores(at)
    if honest.shape[3] <= 64:
        return honest
    return torch.cat([honest[..., :63], honest[..., 63:64] + 0.6931471805599453, honest[..., 64:]], -1)


def two_faults_that_hide_each_other(at):
    """The scale is that of the whole model, and keys are stretched by the same: right as long as no scale is given."""
    return raw_scores(at) * 2 if at.problem.scale is not None and at.problem.shape[1] == 4 else raw_scores(at)


def capped_sink(at):
    cap, sink = at.call.softcap, at.call.sink
    return sink if cap is None or sink is None else cap * torch.tanh(sink / cap)


def rest_of_a_block_is_forgotten(at):
    """Keys past the last whole block of 16, where there are more than 16 and no whole number of blocks."""
    keys = at.k.shape[2]
    kept = torch.arange(keys) < keys // 16 * 16
    return visible(at) & kept if keys > 16 and keys % 16 else visible(at)


def last_of_a_group_reads_the_next(at):
    """Only where three heads or more share a key head."""
    ratio, groups = at.problem.shape[1] // max(at.problem.key.shape[1], 1), at.problem.key.shape[1]
    reads = torch.arange(at.problem.shape[1]) // max(ratio, 1)
    if ratio > 2:
        reads[ratio - 1 :: ratio] = (reads[ratio - 1 :: ratio] + 1) % groups
    return at.problem.key[:, reads] if at.problem.shape[1] else k(at)


def window_with_an_offset_is_one_wider(at):
    honest = call(at)
    wider = isinstance(honest.window, tuple) and at.problem.window is not None and at.problem.query_offset is not None
    if not wider or honest.window[0] is None:
        return honest
    return replace(honest, window=(honest.window[0] + 1, honest.window[1]))


def square_mask_is_read_the_other_way(at):
    """A mask of two axes, where both are of one length."""
    honest, mask = call(at), at.problem.mask
    square = mask is not None and mask.dim() == 2 and mask.shape[0] == mask.shape[1]
    return replace(honest, mask=honest.mask.mT) if square else honest


def repeated_mask_is_read_as_if_it_lay_there(at):
    """A mask that is seen many times without a copy."""
    honest, mask = call(at), at.problem.mask
    repeated = mask is not None and any(step == 0 and length > 1 for step, length in zip(mask.stride(), mask.shape, strict=True))
    return replace(honest, mask=honest.mask.flip(-1)) if repeated else honest


def one_query_with_an_offset_sees_all(at):
    p = at.problem
    return torch.ones_like(visible(at)) if p.causal and p.shape[2] == 1 and p.query_offset is not None and p.window is None and p.mask is None else visible(at)


def offset_before_the_first_key_is_taken_for_0(at):
    honest = call(at)
    return replace(honest, offset=honest.offset.clamp(min=0)) if at.problem.query_offset is not None else honest


def keys_of_other_texts_have_no_gradient(at):
    return torch.cat([k(at)[:1], k(at)[1:].detach()])


def more_than_three_texts_share_a_mask(at):
    honest = call(at)
    shared = honest.mask is not None and honest.mask.shape[0] > 3
    return replace(honest, mask=torch.cat([honest.mask[:3], honest.mask[2:3].expand(len(honest.mask) - 3, *honest.mask.shape[1:])])) if shared else honest


SUBTLE: dict[str, Steps] = {
    "the rest of a block is forgotten": {"visible": rest_of_a_block_is_forgotten},
    "the last head of three or more reads the next key head": {"k": last_of_a_group_reads_the_next},
    "the numbers are right, their dtype is not": {"output": lambda at: output(at).float()},
    "a window is one wider where an offset is given": {"call": window_with_an_offset_is_one_wider},
    "a square mask is read the other way": {"call": square_mask_is_read_the_other_way},
    "a mask that is repeated without a copy": {"call": repeated_mask_is_read_as_if_it_lay_there},
    "one query with an offset sees all": {"visible": one_query_with_an_offset_sees_all},
    "an offset before the first key is 0": {"call": offset_before_the_first_key_is_taken_for_0},
    "keys of other texts have no gradient": {"k": keys_of_other_texts_have_no_gradient},
    "more than three texts share a mask": {"call": more_than_three_texts_share_a_mask},
    "a bias of one row counts half": {"call": lambda at: replace(call(at), bias=call(at).bias / 2) if _one_row(at.problem.bias) else call(at)},
    "a cap is forgotten where a scale is given": {"call": lambda at: replace(call(at), softcap=None) if at.problem.scale is not None else call(at)},
    "the sink of the first head for all": {
        "call": lambda at: replace(call(at), sink=call(at).sink[:1].expand_as(call(at).sink)) if call(at).sink is not None else call(at)
    },
    "the sink counts twice where a mask is": {
        "weights": lambda at: softmax(at.scores, at.call.sink if at.call.mask is None or at.call.sink is None else at.call.sink + 0.6931)[0]
    },
    "a scale of 1 is taken for none": {
        "raw_scores": lambda at: dot_product(at.q, at.k, at.visible) * at.q.shape[3] ** -0.5 if at.problem.scale == 1.0 else raw_scores(at)
    },
    "keys past the 128th are forgotten": {"visible": lambda at: visible(at) & (torch.arange(at.k.shape[2]) < 128)},
    "no limit to the left means none at all": {
        "call": lambda at: (
            replace(call(at), window=(0, call(at).window[1])) if isinstance(at.problem.window, tuple) and at.problem.window[0] is None else call(at)
        )
    },
    "a NaN that is seen is swept out of the values": {"v": lambda at: v(at).nan_to_num()},
    "in training dropout is made up for twice": {
        "used_weights": lambda at: used_weights(at) / (1 - at.problem.dropout) if at.mode.training else used_weights(at)
    },
    "weights are shown in another order where there are as many key heads": {
        "returned_weights": lambda at: at.weights.flip(1) if at.problem.key.shape[1] == at.problem.shape[1] else at.weights
    },
}


def _one_row(bias) -> bool:
    return bias is not None and bias.shape[-2] == 1


WRONG: dict[str, Steps] = {
    **SUBTLE,
    "one query is answered by the first key": {"output": lambda at: at.v[:, :, :1].to(at.q.dtype) if at.q.shape[2] == 1 and at.v.shape[2] > 1 else output(at)},
    "more than 64 keys": {"scores": block_edge_counts_twice},
    "float64 is computed in float32": {"raw_scores": lambda at: raw_scores(at).float().double() if at.q.dtype == torch.float64 else raw_scores(at)},
    "three heads share a key head": {"v": lambda at: v(at).roll(1, 1) if at.problem.shape[1] == 6 and at.problem.key.shape[1] == 2 else v(at)},
    "the second text": {"visible": second_text_sees_one_key_too_many},
    "a scale below 0 turns the mask round": {"visible": lambda at: ~visible(at) if at.call.scale < 0 and at.call.causal else visible(at)},
    "an offset given as a tensor": {"call": offset_of_a_tensor_is_forgotten},
    "two faults that hide each other": {"raw_scores": two_faults_that_hide_each_other},
    "mask or window, never both": {"call": lambda at: replace(call(at), window=None) if call(at).mask is not None else call(at)},
    "the sink is capped": {"weights": lambda at: softmax(at.scores, capped_sink(at))[0]},
    "bfloat16 forgets the bias": {"call": lambda at: replace(call(at), bias=None) if at.q.dtype == torch.bfloat16 else call(at)},
    "a left window counts from the right": {
        "call": lambda at: replace(call(at), window=call(at).window[::-1]) if isinstance(call(at).window, tuple) else call(at)
    },
    "a cap on the size, not the sign": {"scores": lambda at: scores(at).abs().masked_fill(~at.visible, -torch.inf) if at.call.softcap else scores(at)},
    "values are read where keys end": {"z": lambda at: weighted_sum(at.used_weights, at.v.roll(1, 2), at.visible) if at.v.shape[2] == 33 else z(at)},
}


def in_another_order(at):
    """Keys summed from the last to the first."""
    return weighted_sum(at.used_weights.flip(3), at.v.flip(2), at.visible.expand(at.scores.shape).flip(3))


def in_blocks(at):
    """An online softmax that minds its guard."""
    highest, mass, total = torch.full(at.scores.shape[:3], -torch.inf).to(at.scores), at.scores[..., :0], torch.zeros(at.scores.shape[:3]).to(at.scores)
    sink = None if at.call.sink is None else at.call.sink.to(at.scores)[None, :, None, None].expand(*at.scores.shape[:3], 1)
    for block in (*at.scores.split(2, -1), *([] if sink is None else [sink])):
        new = torch.maximum(highest, block.amax(-1)) if block.shape[-1] else highest
        base = new.masked_fill(new == -torch.inf, 0)
        part, shrink = (block - base[..., None]).exp(), (highest - base).exp()
        mass, total, highest = torch.cat([mass * shrink[..., None], part], -1), total * shrink + part.sum(-1), new
    share = mass / total.masked_fill(total == 0, 1)[..., None]
    return share[..., : at.scores.shape[3]].masked_fill(at.scores == -torch.inf, 0)


def split_over_both(at):
    """The root of the scale on queries and on keys; its sign on the queries."""
    root = abs(at.call.scale) ** 0.5
    sign = -1.0 if at.call.scale < 0 else 1.0
    wide = torch.float64 if at.q.dtype == torch.float64 else torch.float32
    return dot_product(at.q.to(wide) * (sign * root), at.k.to(wide) * root, at.visible)


def sink_as_a_key(at):
    if at.call.sink is None:
        return weights(at)
    column = at.call.sink.to(at.scores)[None, :, None, None].expand(*at.scores.shape[:3], 1)
    return softmax(torch.cat([at.scores, column], -1))[0][..., :-1]


def _powers_of_two(at):
    """e^s as 2^(s / log 2), as kernels have it."""
    wide = at.scores.double() * 1.4426950408889634
    sink = None if at.call.sink is None else at.call.sink.double()[None, :, None, None] * 1.4426950408889634
    top = wide.amax(-1, keepdim=True) if wide.shape[-1] else wide.new_full((*wide.shape[:3], 1), -torch.inf)
    top = top if sink is None else torch.maximum(top, sink)
    base = top.masked_fill(top == -torch.inf, 0)
    mass = torch.exp2(wide - base)
    total = mass.sum(-1, keepdim=True) + (0 if sink is None else torch.exp2(sink - base))
    return (mass / total.masked_fill(total == 0, 1)).to(at.scores.dtype)


def _shifted(at):
    """Where nothing bends the scores, what is taken from all of a row alike does not matter."""
    honest = raw_scores(at)
    if at.call.softcap is not None or at.call.sink is not None or not honest.shape[-1] or not bool(honest.isfinite().all()):
        return honest
    return honest - 3.0


def mask_from_lengths(at):
    """Key padding is turned into lengths and back, where it is padding; all else is left."""
    honest = call(at)
    if honest.mask is None or honest.mask.shape[1:3] != (1, 1):
        return honest
    lengths = honest.mask.sum(-1, keepdim=True)
    again = torch.arange(honest.mask.shape[3]) < lengths
    return replace(honest, mask=again) if torch.equal(again, honest.mask) else honest


UNUSUAL: dict[str, Steps] = {
    "another order of summation": {"z": in_another_order},
    "keys in blocks": {"weights": in_blocks},
    "scale split over q and k": {"raw_scores": split_over_both},
    "sinks as an extra key": {"weights": sink_as_a_key},
    "a mask built from lengths": {"call": mask_from_lengths},
    "powers of two": {"weights": lambda at: _powers_of_two(at)},
    "everything in float64": {"raw_scores": lambda at: dot_product(at.q.double(), at.k.double(), at.visible) * at.call.scale},
    "a head at a time": {
        "z": lambda at: (
            torch.cat(
                [
                    weighted_sum(*(x[:, h : h + 1] for x in (at.used_weights, at.v, at.visible.expand(at.used_weights.shape))))
                    for h in range(at.used_weights.shape[1])
                ],
                1,
            )
            if at.used_weights.shape[1]
            else z(at)
        )
    },
    "the output is a view of another order": {"output": lambda at: output(at).transpose(1, 2).contiguous().transpose(1, 2)},
    "every score is shifted by three": {"raw_scores": lambda at: _shifted(at)},
    "key heads written out": {
        "k": lambda at: repeat_kv(at.problem.key, at.problem.shape[1]).contiguous(),
        "used_weights": lambda at: used_weights(at) + 0.0,
        "q": lambda at: at.problem.query,
    },
}


def accused_by(steps: Steps, stop: bool) -> dict[str, Finding]:
    """The laws that fall at the full level; the first is enough where something is wrong."""
    found = {}
    way = MutableAttention(steps, supports=MutableAttention().supports - {"batch_invariance"})
    known = invariants("call", "layer")
    for name in sorted(known, key=lambda name: name not in DETECT_MOST) if stop else known:
        law = known[name]
        finding = first_finding(name, law, way, "full") if law.applies_to(way) else None
        if finding is not None:
            found[name] = finding
            if stop:
                break
    return found


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_caught(name):
    assert accused_by(WRONG[name], stop=True)


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_accused_by_nobody(name):
    assert accused_by(UNUSUAL[name], stop=False) == {}


def test_there_are_enough_of_both():
    assert len(WRONG) >= 30
    assert len(UNUSUAL) >= 10
