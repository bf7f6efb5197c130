"""What every attention of a model is given by transformers, written down by a probe; and weights from it in float64."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask


@dataclass(frozen=True)
class InterfaceArguments:
    """One call of the attention interface: everything but query, key and value."""

    scaling: float
    mask: Tensor | None
    softcap: float | None
    sink: Tensor | None
    bias: Tensor | None


_calls: list[InterfaceArguments] = []


def _probe(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float, dropout: float = 0.0, **rest: Any) -> Any:
    sink, bias = (None if x is None else x.detach() for x in (rest.get("s_aux"), rest.get("position_bias")))
    given = InterfaceArguments(scaling, attention_mask, rest.get("softcap"), sink, bias)
    _calls.append(given)
    weights = weights_of(query, key, given)
    group = query.shape[1] // key.shape[1]
    z = weights @ value.double().repeat_interleave(group, 1)
    return z.to(query.dtype).transpose(1, 2).contiguous(), None


AttentionInterface.register("headwise_test_probe", _probe)
AttentionMaskInterface.register("headwise_test_probe", eager_mask)


def recorded(hf: PreTrainedModel, given: Mapping[str, Any]) -> list[InterfaceArguments]:
    """What each attention call of this model was given, in order."""
    before = hf.config._attn_implementation
    _calls.clear()
    hf.set_attn_implementation("headwise_test_probe")
    try:
        with torch.no_grad():
            hf(**given)
    finally:
        hf.set_attn_implementation(before)
    return list(_calls)


def weights_of(query: Tensor, key: Tensor, given: InterfaceArguments) -> Tensor:
    """softmax([cap(scale · q·k) + bias + mask, sink]) without the sink's column, in float64."""
    group = query.shape[1] // key.shape[1]
    scores = query.double() @ key.double().repeat_interleave(group, 1).transpose(-1, -2) * given.scaling
    if given.softcap is not None:
        scores = given.softcap * torch.tanh(scores / given.softcap)
    if given.bias is not None:
        scores = scores + given.bias.double()
    if given.mask is not None:
        scores = scores + given.mask.double()
    if given.sink is not None:
        sink = given.sink.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    return scores.softmax(-1)


def statistics_of(weights: Tensor, given: InterfaceArguments, offset: int = 0) -> dict[str, Tensor]:
    """The statistics by definition, from float64 weights."""
    queries, keys = weights.shape[-2:]
    position = torch.arange(queries) + offset
    away = (position[:, None] - torch.arange(keys)).abs()

    def at(key: Tensor) -> Tensor:
        there = (key >= 0) & (key < keys)
        return weights.gather(-1, key.clamp(0, keys - 1)[:, None].expand(*weights.shape[:3], 1))[..., 0] * there

    return {
        "entropy": -torch.xlogy(weights, weights).sum(-1),
        "max_weight": weights.amax(-1),
        "participation": 1 / weights.square().sum(-1),
        "distance": (weights * away).sum(-1),
        "first": weights[..., 0],
        "previous": at(position - 1),
        "self": at(position),
        "sink": 1 - weights.sum(-1) if given.sink is not None else torch.zeros(weights.shape[:3], dtype=torch.float64),
    }
