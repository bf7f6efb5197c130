"""Wrong attentions that are in no catalogue, all caught; and honest ones of an unusual kind, accused by nobody."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from headwise.attention.materialise import dot, each_head, mix, softmax
from headwise.proof.call_way import CallWay, call, kept, output, raw, scores, seen, v, weights, z
from headwise.proof.finding import Finding
from headwise.proof.laws import first_finding, laws, speaks

Steps = dict[str, Callable[[Any], Any]]


def second_text_sees_one_key_too_many(at):
    """One batch row only."""
    p = at.call.offset[:, None, None, None] + torch.arange(at.q.shape[2])[:, None]
    extra = (torch.arange(at.k.shape[2]) == p + 1) & (torch.arange(len(at.q)) == 1)[:, None, None, None]
    return seen(at) | (extra if at.call.causal and at.call.mask is None else torch.zeros_like(extra))


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
    return raw(at) * 2 if at.problem.scale is not None and at.problem.shape[1] == 4 else raw(at)


def capped_sink(at):
    cap, sink = at.call.softcap, at.call.sink
    return sink if cap is None or sink is None else cap * torch.tanh(sink / cap)


WRONG: dict[str, Steps] = {
    "one query is answered by the first key": {"output": lambda at: at.v[:, :, :1].to(at.q.dtype) if at.q.shape[2] == 1 and at.v.shape[2] > 1 else output(at)},
    "more than 64 keys": {"scores": block_edge_counts_twice},
    "float64 is computed in float32": {"raw": lambda at: raw(at).float().double() if at.q.dtype == torch.float64 else raw(at)},
    "three heads share a key head": {"v": lambda at: v(at).roll(1, 1) if at.problem.shape[1] == 6 and at.problem.key.shape[1] == 2 else v(at)},
    "the second text": {"seen": second_text_sees_one_key_too_many},
    "a scale below 0 turns the mask round": {"seen": lambda at: ~seen(at) if at.call.scale < 0 and at.call.causal else seen(at)},
    "an offset given as a tensor": {"call": offset_of_a_tensor_is_forgotten},
    "two faults that hide each other": {"raw": two_faults_that_hide_each_other},
    "mask or window, never both": {"call": lambda at: replace(call(at), window=None) if call(at).mask is not None else call(at)},
    "the sink is capped": {"weights": lambda at: softmax(at.scores, capped_sink(at))[0]},
    "bfloat16 forgets the bias": {"call": lambda at: replace(call(at), bias=None) if at.q.dtype == torch.bfloat16 else call(at)},
    "a left window counts from the right": {
        "call": lambda at: replace(call(at), window=call(at).window[::-1]) if isinstance(call(at).window, tuple) else call(at)
    },
    "a cap on the size, not the sign": {"scores": lambda at: scores(at).abs().masked_fill(~at.seen, -torch.inf) if at.call.softcap else scores(at)},
    "values are read where keys end": {"z": lambda at: mix(at.kept, at.v.roll(1, 2), at.seen) if at.v.shape[2] == 33 else z(at)},
}


def in_another_order(at):
    """Keys summed from the last to the first."""
    return mix(at.kept.flip(3), at.v.flip(2), at.seen.expand(at.scores.shape).flip(3))


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
    return dot(at.q.to(wide) * (sign * root), at.k.to(wide) * root, at.seen)


def sink_as_a_key(at):
    if at.call.sink is None:
        return weights(at)
    column = at.call.sink.to(at.scores)[None, :, None, None].expand(*at.scores.shape[:3], 1)
    return softmax(torch.cat([at.scores, column], -1))[0][..., :-1]


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
    "scale split over q and k": {"raw": split_over_both},
    "sinks as an extra key": {"weights": sink_as_a_key},
    "a mask built from lengths": {"call": mask_from_lengths},
    "key heads written out": {
        "k": lambda at: each_head(at.problem.key, at.problem.shape[1]).contiguous(),
        "kept": lambda at: kept(at) + 0.0,
        "q": lambda at: at.problem.query,
    },
}


def accused_by(steps: Steps, stop: bool) -> dict[str, Finding]:
    """The laws that fall at the full level; the first is enough where something is wrong."""
    found = {}
    way = CallWay(steps, honours=CallWay.honours - {"batch_invariance"})
    for name, law in laws().items():
        finding = first_finding(name, law, way, "full") if speaks(law, way) else None
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
    assert len(WRONG) >= 10
    assert len(UNUSUAL) >= 5
