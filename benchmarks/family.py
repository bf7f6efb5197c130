"""What becomes of one model type when headwise opens it: right, right without writes, refused, or not attention."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

import headwise as hw
from benchmarks.tiny import build, known, seeded
from headwise.attention.weights import weights
from headwise.errors import HeadwiseError, UnseenAttention, WritesRefused

# What weights may differ by from eager's: two passes of float32, whose layers amplify rounding, where the proof judges one pass within 5e-6; a fault is
# larger by far. Or else TIMES what eager's own float32 differs by from its float64.
WEIGHTS = 1e-3
TIMES = 4


def judged(name: str) -> dict[str, Any]:
    """Build a type, run it, and say what is right; `verdict` is one of VERDICTS, `reason` says why not more."""
    start = time.perf_counter()
    if "missing" in known()[name]:
        return {"type": name, "verdict": "not built", "reason": known()[name]["missing"]}
    try:
        hf, given = build(name)
        theirs, own = _eager(hf, given)
    except Exception as error:  # noqa: BLE001 - whatever a model's own code stumbles over
        return {"type": name, "verdict": "not built", "reason": _line(error)}
    found = {"type": name, "class": type(hf).__name__, **_opened(hf, given, theirs)}
    if own:
        found["eager"] = own
    return found | {"seconds": round(time.perf_counter() - start, 2)}


VERDICTS = ("right", "right without writes", "refused", "not attention", "wrong", "failed", "not built", "not judged yet")


def _opened(hf: Any, given: dict[str, Any], theirs: list[torch.Tensor]) -> dict[str, Any]:
    seeded()
    try:
        run = hw.open_model(hf).run(given)
    except UnseenAttention as error:
        return {"verdict": "not attention" if "no attention to show" in str(error) else "refused", "reason": str(error)}
    except HeadwiseError as error:
        return {"verdict": "refused", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 - a fault of ours, to be shown in the table
        return {"verdict": "failed", "reason": _line(error)}
    try:
        return _told(run, theirs, lambda: _rounding(hf, given, theirs), _own(hf, given))
    except Exception as error:  # noqa: BLE001
        return {"verdict": "failed", "reason": _line(error)}


def _own(hf: Any, given: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """What the model returns where it is compared with sdpa, as its eager attention adds a boolean mask (grounding-dino): then the proof's yardstick,
    the difference between the two, says nothing.
    """
    if hf.config._attn_implementation == "eager":
        return {}
    with torch.no_grad():
        seeded()
        return {name: x for name, x in hf(**given).items() if isinstance(x, torch.Tensor) and x.is_floating_point()}


def _told(run: "hw.Run", theirs: list[torch.Tensor], rounding: Callable[[], float], own: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    proof = run.proof
    failures = [str(verdict) for verdict in proof.verdicts.values() if verdict.passed is False]
    for name, x in own.items():
        known = x.isfinite()
        off = float((run.outputs[name] - x)[known].abs().max() / x[known].abs().max().clamp(min=1))
        failures += [f"{name} differs from sdpa's by {off:.2g} of its size"] if off > WEIGHTS else []
    refusals = list(_refusals(run))
    apart, matched = _apart(run, theirs)
    allowed = WEIGHTS if apart <= WEIGHTS else max(WEIGHTS, TIMES * rounding())
    wrong = "; ".join(failures) or (f"weights differ from eager's by {apart:.2g}, its rounding allows {allowed:.2g}" if apart > allowed else "")
    calls = sum(part.sizes["layer"] for part in run.parts.values())
    return {
        "verdict": "wrong" if wrong else "right without writes" if refusals else "right",
        "reason": wrong or "; ".join(refusals),
        "calls": calls,
        "parts": list(run.parts),
        "written": calls - len(refusals),
        "eager": {"attentions": len(theirs), "matched": matched, "apart": apart},
        "proof": {verdict.name: [verdict.residual, verdict.allowed] for verdict in proof.verdicts.values()},
        "notes": list(run.notes),
    }


def _refusals(run: "hw.Run") -> Iterator[str]:
    for part in run.parts:
        try:
            run.writes_of(part)
        except WritesRefused as error:
            yield str(error)


def _apart(run: "hw.Run", theirs: list[torch.Tensor]) -> tuple[float, int]:
    """How far weights are from those that eager attention returns, each matched with the nearest of its shape."""
    ours = list(_weights(run, {tuple(x.shape) for x in theirs}))
    worst, matched, used = 0.0, 0, set()
    for tensor in theirs:
        near = [(_difference(x, tensor), i) for i, x in enumerate(ours) if i not in used and x.shape == tensor.shape]
        if near:
            distance, index = min(near)
            used.add(index)
            worst, matched = max(worst, distance), matched + 1
    return worst, matched


def _weights(run: "hw.Run", shapes: set[tuple[int, ...]]) -> Iterator[torch.Tensor]:
    """[B, H, T, S] of each call with one of these shapes; NaN where the query is padding."""
    for place in run._metadata.places:
        if (place.batch, place.heads, place.queries, place.keys) in shapes:
            call = run._stored_call(place.index)
            found = weights(call.query, call.key, call.lse, call.call, slice(0, place.queries), slice(0, place.keys))
            padding = run._metadata.padding[place.part]
            yield found if padding is None else found.masked_fill(padding[:, None, :, None], torch.nan)


def _difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference; of the weights without their sink, or of their mean over heads, where that is what eager returns (granite_swa, WavLM)."""
    if theirs.shape[1] > 1 and bool((theirs == theirs[:, :1]).all()):
        ours = ours.mean(1, keepdim=True).expand_as(ours)
    known = ~ours.isnan() & theirs.isfinite()
    if not bool(known.any()):
        return 0.0
    shares = ours / ours.sum(-1, keepdim=True)
    return min(float((x - theirs)[known].abs().max()) for x in (ours, shares))


def _rounding(hf: Any, given: Mapping[str, Any], theirs: list[torch.Tensor]) -> float:
    """How far the attentions of eager's float32 are from those of its float64, at most."""
    wide = {name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for name, x in given.items()}
    exact, _ = _eager(copy.deepcopy(hf).double(), wide)
    pairs = [(x, y) for x, y in zip(theirs, exact, strict=False) if x.shape == y.shape]
    return max((_difference(x.double(), y) for x, y in pairs), default=0.0)


def _eager(hf: Any, given: Mapping[str, Any]) -> tuple[list[torch.Tensor], str]:
    """The attentions that the model itself returns, and why it returns none."""
    with torch.no_grad():
        seeded()
        hf(**given)
        if hf.config._attn_implementation != "eager":
            return [], "its eager attention is at fault: outputs are compared with sdpa's"
        try:
            seeded()
            found = hf(**given, output_attentions=True)
        except Exception as error:  # noqa: BLE001 - many models do not take the argument
            return [], _line(error)
    return [x for x in _attentions(found) if x.dim() == 4 and x.shape[-1] > 1 and _could_be_weights(x)], ""


def _could_be_weights(x: torch.Tensor) -> bool:
    """Some models return scores under the name, or what heads say (ProphetNet, Qwen2-VL's tower)."""
    return bool((x.isnan() | ((x >= 0) & (x <= 1 + 1e-4))).all())


def _attentions(found: Any, inside: bool = False) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        if inside and found.is_floating_point():
            yield found
    elif isinstance(found, Mapping):
        for name, x in found.items():
            if "past_key_values" not in name:
                yield from _attentions(x, inside or ("attention" in name and "mask" not in name))
    elif isinstance(found, list | tuple):
        for x in found:
            yield from _attentions(x, inside)


def _line(error: Exception) -> str:
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said}"[:300]
