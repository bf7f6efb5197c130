"""Whether the model computes the same through us as it does as it was loaded."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import ModelError
from headwise.models.capture.forward_pass import ForwardPass, output_tensors
from headwise.models.capture.hf_attention import IMPLEMENTATION
from headwise.models.implementation import implementation_of
from headwise.models.model_info import text_config
from headwise.verdict import Verdict, WorstCase

TIMES = 4  # the model's own sdpa and eager differ by so much; we may differ by so many times that
ALONE = 1 << 8  # units of the last place of the largest output, where the model has one implementation only, or both are the same code
WIDENED = 1 << 27  # parameters of a model that is copied to float64
CELLS = 1 << 22  # numbers compared at once
EAGER_BYTES = 1 << 30  # what eager attention may take for its scores; beyond that the model is judged by its rounding


def logit_parity(forward_pass: ForwardPass, outputs: Mapping[str, Tensor]) -> Verdict:
    """Compare the run's outputs with the model's own, by the model's own difference between two implementations."""
    loaded = implementation_of(forward_pass.hf)
    own = output_tensors(forward_pass.run_unmodified(loaded))
    other = _other(forward_pass, "eager" if loaded != "eager" else "sdpa")
    own_two = "implementations" if isinstance(forward_pass.hf, PreTrainedModel) else "float32 and float64"
    against = f"{TIMES} times the difference between its own {own_two}" if other else f"the rounding of its only implementation, {loaded}"
    found = _compared(forward_pass, outputs, own, [other] if other else [], against)
    if found.passed is not False or not isinstance(forward_pass.hf, PreTrainedModel):
        return found
    exact = _in_float64(forward_pass)  # its two implementations may happen to round alike, where its layers amplify rounding (MobileBERT)
    if exact is None:
        return found
    others = [exact, *([other] if other else [])]
    return _compared(forward_pass, outputs, own, others, f"{TIMES} times the difference between its own implementations, or its float32 and float64")


def _compared(
    forward_pass: ForwardPass, outputs: Mapping[str, Tensor], own: Mapping[str, Tensor], others: Sequence[Mapping[str, Tensor]], against: str
) -> Verdict:
    """The verdict, where the largest of the own differences is the yardstick."""
    worst, reason = WorstCase("model", f"the outputs are those of the model as it was loaded, within {against}"), "it returns no numbers"
    for name, x in outputs.items():
        if not x.is_floating_point() or name not in own or own[name].shape != x.shape:
            continue
        if _is_number_only_here(x, own[name]):
            reason = f"{name} of the model as it was loaded holds NaN where a run gives numbers (rows that see nothing)"
            continue
        real = _real(name, x, forward_pass.inputs)
        difference = max_difference(x, own[name], real)
        size = max_difference(own[name], torch.zeros(()).to(x).expand_as(x), real)
        yardstick = max((max_difference(other[name].to(x.dtype), own[name], real) for other in others if name in other), default=0.0)
        floor = size * torch.finfo(x.dtype).eps * (2 if yardstick else ALONE if x.dtype.itemsize >= 4 else 16)
        worst.add(difference, max(TIMES * yardstick, floor), name)
    return worst.verdict(reason)


def _is_number_only_here(x: Tensor, own: Tensor) -> bool:
    """Whether the model itself gives NaN where we give numbers, and nowhere the other way round."""
    ours, theirs = x.isnan(), own.isnan()
    return bool((theirs & ~ours).any()) and not bool((ours & ~theirs).any())


def _other(forward_pass: ForwardPass, implementation: str) -> dict[str, Tensor] | None:
    """The outputs of the model's other implementation; None where it has none, or where it would take too much memory."""
    if not isinstance(forward_pass.hf, PreTrainedModel):
        return _in_float64(forward_pass)
    if implementation_of(forward_pass.hf) == IMPLEMENTATION:
        return None  # edited to run through us alone
    if implementation == "sdpa" and not forward_pass.hf._supports_sdpa:
        return None
    if implementation == "eager" and _eager_bytes(forward_pass.hf, forward_pass.inputs) > EAGER_BYTES:
        return None
    try:
        return output_tensors(forward_pass.run_unmodified(implementation))
    except ModelError:
        return None  # some models name an implementation that they then refuse: gemma2 and sdpa


def _in_float64(forward_pass: ForwardPass) -> dict[str, Tensor] | None:
    """What the model gives in float64: it differs from that by its own rounding."""
    if sum(x.numel() for x in forward_pass.hf.parameters()) > WIDENED:
        return None
    inputs = {name: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for name, x in forward_pass.inputs.items()}
    try:
        return output_tensors(
            replace(forward_pass, hf=copy.deepcopy(forward_pass.hf).double(), inputs=inputs).run_unmodified(implementation_of(forward_pass.hf))
        )
    except ModelError:
        return None  # some of its code makes float32 tensors


def _eager_bytes(hf: nn.Module, inputs: Mapping[str, Any]) -> int:
    """What eager attention takes for one layer: scores, their softmax and a copy in float32."""
    ids = inputs.get("input_ids")
    heads = getattr(text_config(hf), "num_attention_heads", 1)
    return 0 if not isinstance(ids, Tensor) else 3 * 4 * ids.shape[0] * heads * ids.shape[1] ** 2


def _real(name: str, x: Tensor, inputs: Mapping[str, Any]) -> Tensor | None:
    """Which tokens count, [B, T]: not padding."""
    for mask, found in inputs.items():
        if mask.endswith("key_padding_mask") and isinstance(found, Tensor) and found.dtype == torch.bool and x.shape[:2] == found.shape:
            return ~found  # as torch's own modules say it: True where hidden
    for mask in ("attention_mask", "decoder_attention_mask"):
        found = inputs.get(mask)
        of_decoder = "decoder_input_ids" in inputs and not name.startswith("encoder")
        if isinstance(found, Tensor) and (mask == "decoder_attention_mask") == of_decoder and x.shape[:2] == found.shape:
            return found.bool()
    return None


def max_difference(x: Tensor, y: Tensor, real: Tensor | None) -> float:
    """The largest difference on tokens that count, some tokens at a time; NaN where one is not a number and the other is."""
    if x.numel() == 0:
        return 0.0
    tokens = 1 if real is None else real.dim()
    x, y = (a.reshape(-1, *a.shape[tokens:]) if tokens > 1 else a for a in (x, y))
    kept = torch.arange(x.shape[0] if x.dim() else 1) if real is None else real.reshape(-1).nonzero()[:, 0]
    if x.dim() == 0:
        return _apart(x, y)
    step = max(1, CELLS // max(1, x[0].numel()))
    found = [_apart(x[part], y[part]) for part in kept.to(x.device).split(step)]
    return float("nan") if any(one != one for one in found) else max(found, default=0.0)


def _apart(x: Tensor, y: Tensor) -> float:
    same = (x == y) | (x.isnan() & y.isnan())  # equal infinities too
    return float((x.double() - y.double()).abs().masked_fill(same, 0).max())
