"""A model's output on a text, as loaded and with the z of some heads scaled, measured by running the model."""

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
MAX_LOGITS = 1024  # tokens of a text whose logits are all compared
CHUNK = 64  # tokens whose probabilities are compared at a time
BATCH_TOKENS = 2048  # tokens of all rows of a batch that run together
Factors = Mapping[int, Float[Tensor, "B H"]]  # by index of the attention call: what z of each head is multiplied by


@dataclass(frozen=True, eq=False)
class ModelOutput:
    """The final output of a model, a row for each set of factors.

    Attributes:
        kind: next_token, logits, classes, embedding or none.
        rows: logits of one position or of the classes, or the embedding; empty for none.
    """

    kind: str
    rows: Float[Tensor, "B V"]

    @property
    def probabilities(self) -> Float[Tensor, "B V"]:
        """Probabilities, in float64."""
        return self.rows.double().softmax(-1)


@dataclass(eq=False)
class ZRecorder:
    """Records z of one attention call before any of its heads is scaled."""

    index: int
    z: list[Float[Tensor, "B T H E"]] = field(default_factory=list)


def output_kind(hf: nn.Module) -> str:
    """The kind of output of a model: next_token, logits, classes, embedding or none."""
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


def scaled_output(run: "Run", factors: Factors | None = None, recorder: ZRecorder | None = None) -> ModelOutput:
    """The model's output with some heads scaled: one pass for each row of factors, several rows in a batch.

    Args:
        factors: the same number of rows for each call; None for the model as loaded.
        recorder: records z of one of the scaled calls.
    """
    factors = factors or {}
    hf = run.forward_pass.hf
    rows = next((len(x) for x in factors.values()), 1)
    tokens = max(place.queries for place in run.places)
    step = max(1, BATCH_TOKENS // tokens)
    parts = []
    for first in range(0, rows, step):
        some = {index: x[first : first + step] for index, x in factors.items()}
        parts.append(_pass(run, some, recorder, min(step, rows - first)))
    return ModelOutput(output_kind(hf), torch.cat(parts))


def scaled_output_with_logits(run: "Run", factors: Factors, recorder: ZRecorder | None = None) -> tuple[ModelOutput, Float[Tensor, "T V"] | None]:
    """The model's output with some heads scaled, with the logits of every token where the run has them too: one pass."""
    if logits_by_token(run, run.outputs) is None:
        return scaled_output(run, factors, recorder), None
    outputs = _outputs(run, factors, recorder, 1, last=False)
    return ModelOutput(output_kind(run.forward_pass.hf), final_output(run.forward_pass.hf, outputs, run.forward_pass.inputs)), logits_by_token(run, outputs)


def logits_by_token(run: "Run", outputs: Mapping[str, Tensor]) -> Float[Tensor, "T V"] | None:
    """The logits of every token of a text that is short enough; None where the model does not return them all."""
    logits = outputs.get("logits", outputs.get("prediction_logits"))
    if output_kind(run.forward_pass.hf) not in ("next_token", "logits") or logits is None or logits.dim() != 3 or not 1 < logits.shape[1] <= MAX_LOGITS:
        return None
    return logits[0]


def mean_kl(before: Float[Tensor, "T V"], after: Float[Tensor, "T V"]) -> float:
    """KL(before ‖ after) in nats, averaged over tokens."""
    total = sum(
        float(kl_divergences(ModelOutput("", one), ModelOutput("", other)).sum()) for one, other in zip(before.split(CHUNK), after.split(CHUNK), strict=True)
    )
    return total / len(before)


def _pass(run: "Run", factors: Factors, recorder: ZRecorder | None, rows: int) -> Float[Tensor, "b V"]:
    return final_output(run.forward_pass.hf, _outputs(run, factors, recorder, rows), run.forward_pass.inputs)


def _outputs(run: "Run", factors: Factors, recorder: ZRecorder | None, rows: int, last: bool = True) -> Mapping[str, Tensor]:
    """The model's outputs; with `last`, the logits of the last token only, where the model has an option for it."""
    forward_pass = run.forward_pass
    places = {place.index: place for place in run.places}
    changes = {index: _multiply(x, recorder if recorder is not None and recorder.index == index else None) for index, x in factors.items()}
    heads = {index: places[index].heads for index in changes}
    other = with_z_hooks(forward_pass.hf, forward_pass.layout, heads, changes) if changes else forward_pass.hf
    register()
    given = {name: _repeat_batch(x, rows) for name, x in forward_pass.inputs.items()}
    if last and output_kind(forward_pass.hf) == "next_token" and "logits_to_keep" in signature(forward_pass.hf.forward).parameters:
        given["logits_to_keep"] = 1
    return output_tensors(run_unmodified(other, given, IMPLEMENTATION))


def final_output(hf: nn.Module, outputs: Mapping[str, Tensor], given: Mapping[str, Any]) -> Float[Tensor, "b V"]:
    """The output that is compared: the logits of the last token or of the classes, or the mean of the last hidden state over tokens."""
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


def top_tokens(probabilities: Float[Tensor, " V"], name: Callable[[int], str]) -> list[dict[str, Any]]:
    """The most likely tokens."""
    found = probabilities.topk(min(TOP, len(probabilities)))
    return [{"id": id, "token": name(id), "probability": probability} for id, probability in zip(found.indices.tolist(), found.values.tolist(), strict=True)]


def output_facts(run: "Run", before: ModelOutput, name: Callable[[int], str]) -> dict[str, Any]:
    """The output of the model as loaded, for the page.

    Args:
        name: gives the text of a token.
    """
    if before.kind == "none" or before.rows.shape[1] == 0:
        return {"kind": "none"}
    if before.kind == "embedding":
        return {"kind": "embedding", "width": before.rows.shape[1], "norm": float(before.rows[0].double().norm())}
    return {"kind": before.kind, "position": max(place.queries for place in run.places) - 1, "top": top_tokens(before.probabilities[0], name)}


def output_change(before: ModelOutput, after: ModelOutput, name: Callable[[int], str]) -> dict[str, Any]:
    """How the output changed, for the page."""
    if before.kind == "none" or before.rows.shape[1] == 0:
        return {"kind": "none"}
    if before.kind == "embedding":
        old, new = before.rows[0].double(), after.rows[0].double()
        return {"kind": "embedding", "cosine": float(cosines(before, after)[0]), "relative": float((new - old).norm() / old.norm())}
    old, new = before.probabilities[0], after.probabilities[0]
    likely = old.topk(min(TOP, len(old))).indices.tolist()
    likely += [id for id in new.topk(min(TOP, len(new))).indices.tolist() if id not in likely]
    shown = [{"id": id, "token": name(id), "probability": float(new[id]), "as_loaded": float(old[id])} for id in likely]
    return {"kind": before.kind, "kl": float(kl_divergences(before, after)[0]), "top": shown}


def kl_divergences(before: ModelOutput, after: ModelOutput) -> Float[Tensor, " B"]:
    """KL(before ‖ after) of each row, in nats."""
    old, new = (x.rows.double().log_softmax(-1) for x in (before, after))
    return (old.exp() * (old - new)).sum(-1).clamp(min=0)


def cosines(before: ModelOutput, after: ModelOutput) -> Float[Tensor, " B"]:
    """The cosine similarity of the embedding as loaded with that of each row."""
    return torch.cosine_similarity(before.rows.double(), after.rows.double(), dim=-1)


def scale_factors(run: "Run", edits: Sequence[tuple[int, int, float]], rows: int = 1) -> dict[int, Tensor]:
    """Factors for every head of the calls that edits change, 1 for the other heads.

    Args:
        edits: index of the call, head, scale.
    """
    places = {place.index: place for place in run.places}
    found: dict[int, Tensor] = {}
    for index, head, scale in edits:
        found.setdefault(index, torch.ones(rows, places[index].heads))[:, head] = scale
    return found


def _multiply(factors: Float[Tensor, "b H"], recorder: ZRecorder | None) -> Callable[[Tensor], Tensor]:
    def multiply(z: Float[Tensor, "B T H E"]) -> Float[Tensor, "B T H E"]:
        if recorder is not None:
            recorder.z.append(z)
        return z * factors.to(z)[:, None, :, None]

    return multiply


def _repeat_batch(x: Any, rows: int) -> Any:
    return x.repeat_interleave(rows, 0) if rows > 1 and isinstance(x, Tensor) and x.dim() and x.shape[0] == 1 else x
