"""Attention that a model computes itself, read from that computation: the weights, and the values they are multiplied with.

Such a call reaches us as a product: weights [N, T, S], N batch rows times heads, with values [N, S, E]. It is written down as
one whose scores are the logarithms of its weights, so that all that follows from a call (statistics, maps, writes, proof)
follows from this one. Queries and keys are not known: the weights are the model's own, to the last bit.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import nn

from headwise.attention.call import Call, accumulation_dtype
from headwise.axes import Float, Tensor
from headwise.models.capture.attention_request import AttentionRequest, MaskSplitter

NOTE = "the model computes this attention itself; its weights are the ones that it used"
BLANK = "some rows of its weights are NaN, as a softmax over hidden keys alone is; they are shown as rows that attend to nothing"


def request_from_weights(weights: Float[Tensor, "N T S"], value: Float[Tensor, "N S E"], heads: int) -> AttentionRequest:
    """The call whose weights these are."""
    blank = weights.isnan().all(-1, keepdim=True)
    notes = (NOTE, BLANK) if bool(blank.any()) else (NOTE,)
    logs = weights.detach().masked_fill(blank, 0).to(accumulation_dtype(weights.dtype)).log().unflatten(0, (-1, heads))
    values = value.detach().unflatten(0, (-1, heads))
    b, h, t, s = logs.shape
    query, key = values.new_zeros(b, h, t, 1), values.new_zeros(b, h, s, 1)
    offset = torch.full((b,), s - t, dtype=torch.int64, device=query.device)
    return AttentionRequest(query, key, values, Call(scale=1.0, offset=offset, bias=logs), None, notes, weights_dtype=softmax_dtype(weights))


def are_distributions(weights: Float[Tensor, "N T S"]) -> bool:
    """Whether every row is of numbers that are not negative and add up to 1 (to 0, or all NaN: a row that sees nothing)."""
    weights = weights.masked_fill(weights.isnan().all(-1, keepdim=True), 0)
    sums = weights.detach().to(accumulation_dtype(weights.dtype)).sum(-1)
    slack = torch.finfo(softmax_dtype(weights)).eps * (4 + weights.shape[-1] ** 0.5)
    return bool((weights >= 0).all()) and bool((((sums - 1).abs() <= slack) | (sums == 0)).all())


def softmax_dtype(weights: Tensor) -> torch.dtype:
    """The dtype in which weights were made: float32 where a float64 tensor holds float32's numbers, as of a softmax in float32 within a float64 model."""
    wider = weights.dtype == torch.float64 and torch.equal(weights.nan_to_num(), weights.nan_to_num().float().double())
    return torch.float32 if wider else weights.dtype


def count_heads(shape: Sequence[int], around: Sequence[nn.Module], weights: Float[Tensor, "N T S"]) -> int | None:
    """How many heads the N planes of weights are, or None where that cannot be told.

    Args:
        shape: of the softmax's result; with four axes or more, the third from the end counts heads.
        around: the running modules, innermost first; where the softmax has three axes, the innermost that knows a number of heads tells.
    """
    n, t, s = weights.shape
    if len(shape) >= 4:
        return shape[-3] if tuple(shape[-2:]) == (t, s) and prod(shape[:-2]) == n else None
    if len(shape) == 2:
        return 1
    found = next((count for module in around for count in _counts(module) if n % count == 0), None)
    return found if found is not None else 1


def request_from_fused(named: dict[str, Any], split_mask: MaskSplitter) -> AttentionRequest:
    """The call of a fused operator, from its arguments by name."""
    query, key, value = (named[name].detach() for name in ("query", "key", "value"))
    plane = named.get("attn_mask") if named.get("attn_mask") is not None else named.get("attn_bias")
    scale = named.get("scale")
    mask, bias = (None, None) if plane is None else split_mask(plane, plane.reshape((1,) * (4 - plane.dim()) + tuple(plane.shape)))
    offset = torch.zeros(query.shape[0], dtype=torch.int64, device=query.device)  # torch's causal mask begins at the first key
    call = Call(scale=query.shape[-1] ** -0.5 if scale is None else float(scale), offset=offset, causal=bool(named.get("is_causal")), mask=mask, bias=bias)
    return AttentionRequest(query, key, value, call, None, ("the model computes this attention itself",))


def _counts(module: nn.Module) -> list[int]:
    """Numbers of heads that a module knows, by its attributes' names."""
    return [x for name, x in vars(module).items() if "head" in name and isinstance(x, int) and not isinstance(x, bool) and x > 0 and not _is_width(name)]


def _is_width(name: str) -> bool:
    return any(word in name for word in ("dim", "size", "width"))
