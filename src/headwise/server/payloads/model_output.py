"""What a model makes of a text, and what it makes of it when heads say more or less: measured, by running it so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.axes import Float, Tensor
from headwise.models.capture.forward_pass import output_tensors, run_unmodified
from headwise.models.capture.hf_attention import IMPLEMENTATION, register
from headwise.models.hooks.z_hooks import with_z_hooks

if TYPE_CHECKING:
    from headwise.models.run import Run

TOP = 8  # tokens that are shown
MOST = 1024  # tokens of a text of which all logits are looked at
CHUNK = 64  # tokens whose probabilities are compared together
AT_ONCE = 2048  # tokens of all rows of a batch that run together
Scales = Mapping[int, Float[Tensor, "B H"]]  # by index of the attention call: what each head's words are multiplied by


@dataclass(frozen=True, eq=False)
class Said:
    """What the model says in the end, a row for each way of scaling.

    Attributes:
        kind: next_token, logits, classes, embedding or none.
        rows: logits of one position, of the classes, or the embedding; nothing for none.
    """

    kind: str
    rows: Float[Tensor, "B V"]

    @property
    def shares(self) -> Float[Tensor, "B V"]:
        """Probabilities, in float64."""
        return self.rows.double().softmax(-1)


@dataclass(eq=False)
class Witness:
    """Sees what the heads of one call say before any of them is scaled."""

    index: int
    words: list[Float[Tensor, "B T H E"]] = field(default_factory=list)


def output_kind(hf: nn.Module) -> str:
    """What kind of answer a model gives: next_token, logits, classes, embedding or none."""
    name = type(hf).__name__
    if not isinstance(hf, PreTrainedModel):
        return "none"
    if "ForSequenceClassification" in name:
        return "classes"
    if hf.can_generate() or "ForCausalLM" in name or "LMHead" in name:
        return "next_token"
    if "ForMaskedLM" in name or "ForPreTraining" in name:
        return "logits"
    return "embedding"


def said(run: "Run", scales: Scales | None = None, witness: Witness | None = None) -> Said:
    """The model's answer with some heads scaled, in one pass for each row of `scales`, several rows at once.

    Args:
        scales: as many rows in each; None for the model as it was loaded.
        witness: is shown the words of one of the scaled calls.
    """
    scales = scales or {}
    hf = run.forward_pass.hf
    rows = next((len(x) for x in scales.values()), 1)
    tokens = max(place.queries for place in run.places)
    step = max(1, AT_ONCE // tokens)
    parts = [_pass(run, {index: x[first : first + step] for index, x in scales.items()}, witness, min(step, rows - first)) for first in range(0, rows, step)]
    return Said(output_kind(hf), torch.cat(parts))


def said_everywhere(run: "Run", scales: Scales, witness: Witness | None = None) -> tuple[Said, Float[Tensor, "T V"] | None]:
    """The model's answer with some heads scaled, and with it the logits of every token where the run has them too: one pass."""
    if every_logits(run, run.outputs) is None:
        return said(run, scales, witness), None
    outputs = _outputs(run, scales, witness, 1, last=False)
    return Said(output_kind(run.forward_pass.hf), answer(run.forward_pass.hf, outputs, run.forward_pass.inputs)), every_logits(run, outputs)


def every_logits(run: "Run", outputs: Mapping[str, Tensor]) -> Float[Tensor, "T V"] | None:
    """The logits of every token, of a text that is short enough; None where there are not so many."""
    logits = outputs.get("logits", outputs.get("prediction_logits"))
    if output_kind(run.forward_pass.hf) not in ("next_token", "logits") or logits is None or logits.dim() != 3 or not 1 < logits.shape[1] <= MOST:
        return None
    return logits[0]


def mean_divergence(before: Float[Tensor, "T V"], after: Float[Tensor, "T V"]) -> float:
    """KL(before ‖ after) in nats, the mean over tokens."""
    total = sum(float(divergences(Said("", one), Said("", other)).sum()) for one, other in zip(before.split(CHUNK), after.split(CHUNK), strict=True))
    return total / len(before)


def _pass(run: "Run", scales: Scales, witness: Witness | None, rows: int) -> Float[Tensor, "b V"]:
    return answer(run.forward_pass.hf, _outputs(run, scales, witness, rows), run.forward_pass.inputs)


def _outputs(run: "Run", scales: Scales, witness: Witness | None, rows: int, last: bool = True) -> Mapping[str, Tensor]:
    """What the model returns; with `last`, where it can, the logits of the last token alone."""
    session = run.forward_pass
    places = {place.index: place for place in run.places}
    changes = {index: _change(x, witness if witness is not None and witness.index == index else None) for index, x in scales.items()}
    heads = {index: places[index].heads for index in changes}
    other = with_z_hooks(session.hf, session.layout, heads, changes) if changes else session.hf
    register()
    given = {name: _repeated(x, rows) for name, x in session.inputs.items()}
    if last and output_kind(session.hf) == "next_token" and "logits_to_keep" in signature(session.hf.forward).parameters:
        given["logits_to_keep"] = 1  # of the last token: its logits are all that is looked at
    return output_tensors(run_unmodified(other, given, IMPLEMENTATION))


def answer(hf: nn.Module, outputs: Mapping[str, Tensor], given: Mapping[str, Any]) -> Float[Tensor, "b V"]:
    """The part of a model's outputs that is looked at: the last token's logits, the classes', or the mean of what it says of the tokens."""
    if output_kind(hf) == "none":
        return torch.zeros(1, 0)
    logits = outputs.get("logits", outputs.get("prediction_logits"))
    if logits is not None:
        return (logits if logits.dim() == 2 else logits[:, -1]).float()
    state = outputs.get("last_hidden_state")
    if state is None or state.dim() != 3:
        return torch.zeros(1, 0)
    mask = given.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.shape != (1, state.shape[1]):
        return state.float().mean(1)
    real = mask[0].bool()
    return state[:, real].float().mean(1)


def top(run: "Run", shares: Float[Tensor, " V"], name: Callable[[int], str]) -> list[dict[str, Any]]:
    """The likeliest answers."""
    found = shares.topk(min(TOP, len(shares)))
    return [{"id": id, "token": name(id), "probability": share} for id, share in zip(found.indices.tolist(), found.values.tolist(), strict=True)]


def told(run: "Run", before: Said, name: Callable[[int], str]) -> dict[str, Any]:
    """The answer of the model as it was loaded, for the page."""
    if before.kind == "none" or before.rows.shape[1] == 0:
        return {"kind": "none"}
    if before.kind == "embedding":
        return {"kind": "embedding", "width": before.rows.shape[1], "norm": float(before.rows[0].double().norm())}
    return {"kind": before.kind, "position": max(place.queries for place in run.places) - 1, "top": top(run, before.shares[0], name)}


def difference(before: Said, after: Said, name: Callable[[int], str]) -> dict[str, Any]:
    """What became of the answer, for the page."""
    if before.kind == "none" or before.rows.shape[1] == 0:
        return {"kind": "none"}
    if before.kind == "embedding":
        old, new = before.rows[0].double(), after.rows[0].double()
        return {"kind": "embedding", "cosine": float(cosines(before, after)[0]), "relative": float((new - old).norm() / old.norm())}
    old, new = before.shares[0], after.shares[0]
    likely = old.topk(min(TOP, len(old))).indices.tolist()
    likely += [id for id in new.topk(min(TOP, len(new))).indices.tolist() if id not in likely]
    shown = [{"id": id, "token": name(id), "probability": float(new[id]), "as_loaded": float(old[id])} for id in likely]
    return {"kind": before.kind, "kl": float(divergences(before, after)[0]), "top": shown}


def divergences(before: Said, after: Said) -> Float[Tensor, " B"]:
    """KL(before ‖ after) of each row, in nats."""
    old, new = (x.rows.double().log_softmax(-1) for x in (before, after))
    return (old.exp() * (old - new)).sum(-1).clamp(min=0)


def cosines(before: Said, after: Said) -> Float[Tensor, " B"]:
    """The cosine between the embedding as loaded and that of each row."""
    return torch.cosine_similarity(before.rows.double(), after.rows.double(), dim=-1)


def scales_of(run: "Run", edits: Sequence[tuple[int, int, float]], rows: int = 1) -> dict[int, Tensor]:
    """Factors for every head of the calls that edits touch, 1 for those untouched.

    Args:
        edits: index of the call, head, scale.
    """
    places = {place.index: place for place in run.places}
    found: dict[int, Tensor] = {}
    for index, head, scale in edits:
        found.setdefault(index, torch.ones(rows, places[index].heads))[:, head] = scale
    return found


def _change(factors: Float[Tensor, "b H"], witness: Witness | None) -> Callable[[Tensor], Tensor]:
    def change(words: Float[Tensor, "B T H E"]) -> Float[Tensor, "B T H E"]:
        if witness is not None:
            witness.words.append(words)
        return words * factors.to(words)[:, None, :, None]

    return change


def _repeated(x: Any, rows: int) -> Any:
    return x.repeat_interleave(rows, 0) if rows > 1 and isinstance(x, Tensor) and x.dim() and x.shape[0] == 1 else x
