"""The proof of a run as the page shows it: every verdict with its residual, for the run and for each layer."""

from typing import TYPE_CHECKING, Any

import torch

from headwise.models.verification.call_judge import sample_rows
from headwise.render.overview import proof_sentence

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place
    from headwise.verdict import Verdict

MOVES = {"rows": "M2", "weights": "M2", "hidden": "M2", "output": "M4", "writes": "M3"}
STATES = {True: "passes", False: "fails", None: "refused"}
WIDTHS = "the heads' widths add up to the width that W_O reads"
SLICES = "no two heads of a layer that share keys have identical queries"


def proof_data(run: "Run") -> dict[str, Any]:
    """The proof of a run and of its layers, and two exact checks beside it."""
    proof = run.proof
    exact = [(_widths(run, place), _slices(run, place)) for place in run.places]
    layers: dict[str, list[Any]] = {}
    for place, verdicts, counted in zip(run.places, proof.layers, exact, strict=True):
        layers.setdefault(place.part, []).append([*map(_verdict, verdicts.values()), *counted])
    verdicts = [*map(_verdict, proof.verdicts.values()), *(_worst(some) for some in zip(*exact, strict=True))]
    judged = [one for one in verdicts if one["state"] in ("passes", "fails")]
    passing = sum(one["state"] == "passes" for one in judged)
    passed = proof.passed and passing == len(judged)
    return {"passed": passed, "passing": passing, "judged": len(judged), "sentence": proof_sentence(proof), "verdicts": verdicts, "layers": layers}


def _verdict(verdict: "Verdict") -> dict[str, Any]:
    fields = {name: getattr(verdict, name) for name in ("name", "sentence", "residual", "allowed", "place")}
    return {**fields, "move": MOVES.get(verdict.name), "state": STATES[verdict.passed]}


def _widths(run: "Run", place: "Place") -> dict[str, Any]:
    """M1: counted, not measured."""
    site = run.forward_pass.layout.sites[place.index]
    if site.output is None:
        return _exact("widths", "M1", f"{WIDTHS}: {site.refusal}", "refused")
    read = run.stored_call(place.layer, place.part).z
    if read is None:
        return _exact("widths", "M1", f"{WIDTHS}: the input of W_O was not kept", "refused")
    heads, width = read.shape[2:]
    return _exact("widths", "M1", f"{WIDTHS}: {heads} × {width} = {heads * width}", "passes" if heads == place.heads else "fails")


def _slices(run: "Run", place: "Place") -> dict[str, Any]:
    """M5: queries of two heads that read the same key head differ in some number."""
    if place.heads == 1:
        return _exact("slices", "M5", f"{SLICES}: there is one head", "vacuous")
    query = run.stored_call(place.layer, place.part).query[0]
    group = place.heads // place.key_heads
    for first in range(0, place.heads, group):
        some = query[first : first + group, sample_rows(place.queries)].flatten(1)
        if len(torch.unique(some, dim=0)) < len(some) and _has_duplicates(query[first : first + group]):
            return _exact("slices", "M5", SLICES, "fails")
    return _exact("slices", "M5", SLICES, "passes")


def _has_duplicates(query: torch.Tensor) -> bool:
    """Whether two heads have identical queries at every token."""
    return any(torch.equal(query[i], query[j]) for i in range(len(query)) for j in range(i))


def _exact(name: str, move: str, sentence: str, state: str) -> dict[str, Any]:
    return {"name": name, "sentence": sentence, "residual": None, "allowed": None, "place": "", "move": move, "state": state}


def _worst(verdicts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The verdict over all layers: the first that fails, else the first that passes, else the first."""
    return min(verdicts, key=lambda one: ("fails", "passes", "refused", "vacuous").index(one["state"]))
