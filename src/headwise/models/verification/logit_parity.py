"""Whether the outputs of a run are those of the model as it was loaded: its implementation, its cache, its dtype.

What they may differ by follows from rounding alone. First from dtype and size; where a model amplifies rounding, from the same implementation
run once more with every linear module's output rounded otherwise, and from its float64. The difference between two implementations is never a measure.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from headwise.axes import Tensor
from headwise.errors import ModelError
from headwise.models.capture.forward_pass import ForwardPass, output_tensors, restored_rng
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.implementation import loaded_implementation
from headwise.models.layout import is_linear
from headwise.verdict import Verdict, WorstCase

UNITS = 64  # of the last place of the largest output, which rounding moves without amplification: outputs are sums over layers and widths
UNITS_OF_HALVES = 4  # in bfloat16 and float16, where 64 would be a quarter of the output
TIMES = 4  # what one other rounding of the model moved its outputs by; ours may move them by so many times that
WIDENED = 1 << 27  # parameters of a model that is copied to float64
CELLS = 1 << 22  # numbers compared at once


def logit_parity(forward_pass: ForwardPass, outputs: Mapping[str, Tensor], implementations_differ: bool = False) -> Verdict:
    """Compare the outputs of a run with those of the model as it was loaded.

    Args:
        implementations_differ: eager and sdpa compute different attention on this input: by how much is then added to the sentence.
    """
    own = output_tensors(forward_pass.run_unmodified())
    sentence = "the outputs are those of the model as it was loaded" + (_other_implementation(forward_pass, own) if implementations_differ else "")
    found = _compared(forward_pass, outputs, own, {}, sentence)
    if found.passed is not False or found.residual != found.residual:
        return found
    measured: dict[str, float] = {}
    for rerun in (_rounded_otherwise, _in_float64):
        measured = _furthest(forward_pass, own, rerun(forward_pass), measured)
        found = _compared(forward_pass, outputs, own, measured, f"{sentence}, within {TIMES} times its own rounding, measured")
        if found.passed:
            return found
    return found


def _compared(forward_pass: ForwardPass, outputs: Mapping[str, Tensor], own: Mapping[str, Tensor], measured: Mapping[str, float], sentence: str) -> Verdict:
    """The verdict, where each output may differ by what rounding explains.

    Args:
        measured: by name of an output, what another rounding of the model moved it by.
    """
    worst, reason = WorstCase("model", sentence), "it returns no numbers"
    for name, x in outputs.items():
        if not x.is_floating_point() or name not in own or own[name].shape != x.shape:
            continue
        if _is_number_only_here(x, own[name]):
            reason = f"{name} of the model as it was loaded holds NaN where a run gives numbers (rows that see nothing)"
            continue
        real = _real(name, x, forward_pass.inputs)
        size = max_difference(own[name], torch.zeros(()).to(x).expand_as(x), real)
        units = UNITS if x.dtype.itemsize >= 4 else UNITS_OF_HALVES
        worst.add(max_difference(x, own[name], real), max(TIMES * measured.get(name, 0.0), size * torch.finfo(x.dtype).eps * units), name)
    return worst.verdict(reason)


def _furthest(forward_pass: ForwardPass, own: Mapping[str, Tensor], other: Mapping[str, Tensor] | None, known: Mapping[str, float]) -> dict[str, float]:
    """How far each output is from the model's own, at most; `known` where that is more."""
    found = dict(known)
    for name, x in (other or {}).items():
        if name in own and x.is_floating_point() and x.shape == own[name].shape:
            distance = max_difference(x.to(own[name].dtype), own[name], _real(name, x, forward_pass.inputs))
            found[name] = max(found.get(name, 0.0), distance if distance == distance else 0.0)
    return found


def _is_number_only_here(x: Tensor, own: Tensor) -> bool:
    """Whether the model itself gives NaN where we give numbers, and nowhere the other way round."""
    ours, theirs = x.isnan(), own.isnan()
    return bool((theirs & ~ours).any()) and not bool((ours & ~theirs).any())


def _rounded_otherwise(forward_pass: ForwardPass) -> dict[str, Tensor] | None:
    """The outputs of the same implementation where the output of every linear module is moved by a unit of its last place, up or down at random.

    Another order of summation does the same to each of these sums (Parker 1997, Monte Carlo arithmetic).
    """
    generator = torch.Generator().manual_seed(0)
    clone = shallow_clone(forward_pass.hf, None, use_cache=None)
    for module in clone.modules():
        if is_linear(module):
            module.register_forward_hook(_rounding(generator))
    try:
        with restored_rng(forward_pass.rng_state), torch.inference_mode(False), torch.no_grad():
            return output_tensors(clone(**forward_pass.inputs))
    except (RuntimeError, TypeError, ValueError):
        return None


def _rounding(generator: torch.Generator) -> Callable[..., Any]:
    def hook(module: nn.Module, args: Any, result: Any) -> Any:
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        signs = torch.randint(0, 2, result.shape, generator=generator, dtype=torch.int8).to(result.device) * 2 - 1
        return result + result * (signs * torch.finfo(result.dtype).eps).to(result.dtype)

    return hook


def _in_float64(forward_pass: ForwardPass) -> dict[str, Tensor] | None:
    """The outputs of the same implementation in float64: the model's own differ from them by its rounding."""
    if sum(x.numel() for x in forward_pass.hf.parameters()) > WIDENED:
        return None
    inputs = {name: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for name, x in forward_pass.inputs.items()}
    try:
        return output_tensors(replace(forward_pass, hf=deepcopy(forward_pass.hf).double(), inputs=inputs).run_unmodified())
    except (ModelError, RuntimeError, TypeError):
        return None  # some of its code makes float32 tensors, or cannot be copied


def _other_implementation(forward_pass: ForwardPass, own: Mapping[str, Tensor]) -> str:
    """How far the outputs of the other implementation are from the model's own, as the end of a sentence."""
    loaded = loaded_implementation(getattr(forward_pass.hf, "config", None))
    other = "eager" if loaded != "eager" else "sdpa"
    try:
        distances = _furthest(forward_pass, own, output_tensors(forward_pass.run_unmodified(other)), {})
    except ModelError:
        return ""
    return f", with {loaded}; {other} differs on this input by {max(distances.values()):.2g}" if distances else ""


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
