"""What was proved of a run, as the page tells it: every verdict with its residual, of the whole and of each layer."""

from typing import TYPE_CHECKING, Any

import torch

from headwise.models.verification.call_judge import sample_rows
from headwise.render.overview import proof_sentence

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place
    from headwise.verdict import Verdict

MOVES = {"rows": "M2", "weights": "M2", "hidden": "M2", "output": "M4", "writes": "M3"}
STATES = {True: "holds", False: "fails", None: "refused"}
WIDTHS = "the heads' widths add up to what W_O reads"
SLICES = "no two heads of a layer ask the same of the same keys"


def proved(run: "Run") -> dict[str, Any]:
    """The proof of a run and of its layers; two exact counts beside it."""
    proof = run.proof
    exact = [(_widths(run, place), _slices(run, place)) for place in run.places]
    layers: dict[str, list[Any]] = {}
    for place, verdicts, counted in zip(run.places, proof.layers, exact, strict=True):
        layers.setdefault(place.part, []).append([*map(_verdict, verdicts.values()), *counted])
    whole = [*map(_verdict, proof.verdicts.values()), *(_worst(some) for some in zip(*exact, strict=True))]
    judged = [one for one in whole if one["state"] in ("holds", "fails")]
    held = sum(one["state"] == "holds" for one in judged)
    passed = proof.passed and held == len(judged)
    return {"passed": passed, "held": held, "judged": len(judged), "sentence": proof_sentence(proof), "verdicts": whole, "layers": layers}


def _verdict(verdict: "Verdict") -> dict[str, Any]:
    told = {name: getattr(verdict, name) for name in ("name", "sentence", "residual", "allowed", "place")}
    return {**told, "move": MOVES.get(verdict.name), "state": STATES[verdict.passed]}


def _widths(run: "Run", place: "Place") -> dict[str, Any]:
    """M1: counted, not measured."""
    site = run.forward_pass.layout.sites[place.index]
    if site.output is None:
        return _exact("widths", "M1", f"{WIDTHS}: {site.refusal}", "refused")
    read = run.stored_call(place.layer, place.part).z
    if read is None:
        return _exact("widths", "M1", f"{WIDTHS}: what W_O reads was not kept", "refused")
    heads, width = read.shape[2:]
    return _exact("widths", "M1", f"{WIDTHS}: {heads} × {width} = {heads * width}", "holds" if heads == place.heads else "fails")


def _slices(run: "Run", place: "Place") -> dict[str, Any]:
    """M5: queries of two heads that read the same key head differ in some number."""
    if place.heads == 1:
        return _exact("slices", "M5", f"{SLICES}: there is one head", "vacuous")
    query = run.stored_call(place.layer, place.part).query[0]
    group = place.heads // place.key_heads
    for first in range(0, place.heads, group):
        some = query[first : first + group, sample_rows(place.queries)].flatten(1)
        if len(torch.unique(some, dim=0)) < len(some) and _twins(query[first : first + group]):
            return _exact("slices", "M5", SLICES, "fails")
    return _exact("slices", "M5", SLICES, "holds")


def _twins(query: torch.Tensor) -> bool:
    """Whether two heads ask exactly the same everywhere."""
    return any(torch.equal(query[i], query[j]) for i in range(len(query)) for j in range(i))


def _exact(name: str, move: str, sentence: str, state: str) -> dict[str, Any]:
    return {"name": name, "sentence": sentence, "residual": None, "allowed": None, "place": "", "move": move, "state": state}


def _worst(verdicts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """One that fails; else one that holds; else what there is."""
    return min(verdicts, key=lambda one: ("fails", "holds", "refused", "vacuous").index(one["state"]))
