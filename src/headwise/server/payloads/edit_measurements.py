"""The effect of edits, measured: the model is run with some heads scaled, and compared with the model as loaded."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from headwise.progress import ProgressCallback
from headwise.server.payloads.head_scale import HeadScale, find_place
from headwise.server.payloads.model_output import (
    TOP,
    ModelOutput,
    ZRecorder,
    cosines,
    kl_divergences,
    logits_by_token,
    mean_kl,
    output_change,
    scale_factors,
    scaled_output,
    scaled_output_with_logits,
)
from headwise.server.payloads.text_run import token_text

if TYPE_CHECKING:
    from headwise.models.model import Model
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

SCALES = tuple(step / 4 for step in range(9))  # 0 to 2


def measure_effect(model: "Model", run: "Run", edits: Sequence[HeadScale]) -> dict[str, Any]:
    """The effect of all edits together on the output, and whether z of the other heads of the first edited layer is unchanged.

    Raises:
        WritesRefused: heads cannot be told apart before W_O.
    """
    start = time.perf_counter()
    before, loaded = scaled_output(run), logits_by_token(run, run.outputs)
    scaled = _scaled_calls(run, edits)
    recorder = ZRecorder(min(index for index, _, _ in scaled)) if scaled else None
    after, logits = scaled_output_with_logits(run, scale_factors(run, scaled), recorder) if scaled else (before, loaded)
    effect = output_change(before, after, lambda id: token_text(model, id))
    if loaded is not None and logits is not None:
        effect |= {"mean_kl": mean_kl(loaded, logits), "tokens": len(loaded)}
    effect["others_unchanged"] = recorder is None or _others_unchanged(run, recorder, scaled)
    return {"edits": [vars(edit) for edit in edits], **effect, "milliseconds": (time.perf_counter() - start) * 1000}


def measure_dose(model: "Model", run: "Run", place: "Place", head: int, others: Sequence[HeadScale]) -> dict[str, Any]:
    """The output at nine scales of one head, on top of other edits, compared with the model as loaded."""
    before = scaled_output(run)
    factors = scale_factors(run, _scaled_calls(run, others), len(SCALES))
    own = factors.setdefault(place.index, torch.ones(len(SCALES), place.heads))
    own[:, head] = torch.tensor(SCALES)
    after = scaled_output(run, factors)
    dose: dict[str, Any] = {"layer": place.layer, "head": head, "part": place.part, "kind": before.kind, "scales": list(SCALES)}
    if before.kind == "none" or before.rows.shape[1] == 0:
        return {**dose, "kind": "none"}
    if before.kind == "embedding":
        return {**dose, "cosine": cosines(before, after).tolist()}
    return {**dose, "kl": kl_divergences(before, after).tolist(), "tokens": _probabilities_by_scale(model, before, after)}


def measure_importance(run: "Run", part: str, progress: ProgressCallback, stopped: Callable[[], bool]) -> dict[str, Any]:
    """The effect of ablating each head by itself: KL divergence of the output in nats, or 1 − cosine for embeddings.

    Args:
        progress: called after every layer.
        stopped: whether the job was cancelled.
    """
    before = scaled_output(run)
    places = [place for place in run.places if place.part == part]
    kind = "distance" if before.kind == "embedding" else "kl"
    values = []
    for done, place in enumerate(places):
        if stopped():
            break
        one_ablated = torch.ones(place.heads, place.heads) - torch.eye(place.heads)
        after = scaled_output(run, {place.index: one_ablated})
        effect = 1 - cosines(before, after) if kind == "distance" else kl_divergences(before, after)
        values.append(effect.tolist())
        progress(f"layer {place.layer}", done + 1, len(places))
    return {"kind": kind, "unit": "nats" if kind == "kl" else "", "values": values}


def _scaled_calls(run: "Run", edits: Sequence[HeadScale]) -> list[tuple[int, int, float]]:
    return [(find_place(run, edit.part, edit.layer, edit.head).index, edit.head, edit.scale) for edit in edits]


def _others_unchanged(run: "Run", recorder: ZRecorder, scaled: Sequence[tuple[int, int, float]]) -> bool:
    """Whether z of all other heads, recorded before any was scaled, is bit for bit that of the run."""
    place = next(place for place in run.places if place.index == recorder.index)
    z = run.stored_call(place.layer, place.part).z
    edited = {head for index, head, _ in scaled if index == recorder.index}
    others = [head for head in range(place.heads) if head not in edited]
    return z is not None and all(torch.equal(recorded[:, :, others], z[:, :, others]) for recorded in recorder.z)


def _probabilities_by_scale(model: "Model", before: ModelOutput, after: ModelOutput) -> list[dict[str, Any]]:
    """The probability of each of the most likely tokens at every scale."""
    likely = before.probabilities[0].topk(min(TOP, before.rows.shape[1])).indices.tolist()
    return [{"id": id, "token": token_text(model, id), "probabilities": after.probabilities[:, id].tolist()} for id in likely]
