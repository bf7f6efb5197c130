"""What edits do, measured: the model run with some heads scaled, beside the model as it was loaded."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from headwise.server.payloads.model_output import (
    TOP,
    Said,
    Witness,
    cosines,
    difference,
    divergences,
    every_logits,
    mean_divergence,
    said,
    said_everywhere,
    scales_of,
)
from headwise.server.payloads.text_run import word
from headwise.server.routes.edits import place_of
from headwise.server.state.edit_history import Edit

if TYPE_CHECKING:
    from headwise.models.model import Model
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

SCALES = tuple(step / 4 for step in range(9))  # 0 to 2


def effect(model: "Model", run: "Run", edits: Sequence[Edit]) -> dict[str, Any]:
    """What these edits together do to the answer; and whether the other heads of the first edited layer say what they said before.

    Raises:
        WritesRefused: heads cannot be told apart before W_O.
    """
    start = time.perf_counter()
    before, loaded = said(run), every_logits(run, run.outputs)
    scaled = _scaled(run, edits)
    witness = Witness(min(index for index, _, _ in scaled)) if scaled else None
    after, logits = said_everywhere(run, scales_of(run, scaled), witness) if scaled else (before, loaded)
    told = difference(before, after, lambda id: word(model, id))
    if loaded is not None and logits is not None:
        told |= {"mean_kl": mean_divergence(loaded, logits), "tokens": len(loaded)}
    told["others_unchanged"] = witness is None or _unchanged(run, witness, scaled)
    return {"edits": [vars(edit) for edit in edits], **told, "milliseconds": (time.perf_counter() - start) * 1000}


def dose(model: "Model", run: "Run", place: "Place", head: int, others: Sequence[Edit]) -> dict[str, Any]:
    """The answer at nine scales of one head, upon other edits; measured against the model as it was loaded."""
    before = said(run)
    fixed = scales_of(run, _scaled(run, others), len(SCALES))
    own = fixed.setdefault(place.index, torch.ones(len(SCALES), place.heads))
    own[:, head] = torch.tensor(SCALES)
    after = said(run, fixed)
    told: dict[str, Any] = {"layer": place.layer, "head": head, "part": place.part, "kind": before.kind, "scales": list(SCALES)}
    if before.kind == "none" or before.rows.shape[1] == 0:
        return {**told, "kind": "none"}
    if before.kind == "embedding":
        return {**told, "cosine": cosines(before, after).tolist()}
    return {**told, "kl": divergences(before, after).tolist(), "tokens": _courses(model, before, after)}


def importance(run: "Run", part: str, tell: Any, stopped: Any) -> dict[str, Any]:
    """What silencing each head by itself does to the answer: KL in nats, or the distance (1 - cosine) of embeddings.

    Args:
        tell: is called with how many layers are done, and of how many.
        stopped: whether it has been called off.
    """
    before = said(run)
    places = [place for place in run.places if place.part == part]
    kind = "distance" if before.kind == "embedding" else "kl"
    values = []
    for done, place in enumerate(places):
        if stopped():
            break
        alone = torch.ones(place.heads, place.heads) - torch.eye(place.heads)
        after = said(run, {place.index: alone})
        found = 1 - cosines(before, after) if kind == "distance" else divergences(before, after)
        values.append(found.tolist())
        tell(done=done + 1, of=len(places), doing=f"layer {place.layer}")
    return {"kind": kind, "unit": "nats" if kind == "kl" else "", "values": values}


def _scaled(run: "Run", edits: Sequence[Edit]) -> list[tuple[int, int, float]]:
    return [(place_of(run, edit.part, edit.layer, edit.head).index, edit.head, edit.scale) for edit in edits]


def _unchanged(run: "Run", witness: Witness, scaled: Sequence[tuple[int, int, float]]) -> bool:
    """Bit for bit what the run had heard, in all heads: they are seen before any of them is scaled."""
    place = next(place for place in run.places if place.index == witness.index)
    heard = run.stored_call(place.layer, place.part).z
    edited = {head for index, head, _ in scaled if index == witness.index}
    others = [head for head in range(place.heads) if head not in edited]
    return heard is not None and all(torch.equal(words[:, :, others], heard[:, :, others]) for words in witness.words)


def _courses(model: "Model", before: Said, after: Said) -> list[dict[str, Any]]:
    """The probability of each of the likeliest tokens at every scale."""
    likely = before.shares[0].topk(min(TOP, before.rows.shape[1])).indices.tolist()
    return [{"id": id, "token": word(model, id), "probabilities": after.shares[:, id].tolist()} for id in likely]
