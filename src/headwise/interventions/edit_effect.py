"""The effect of edits on a model's output for one input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headwise.axes import Bool, Float, Tensor
from headwise.deprecation import renamed_parameters
from headwise.errors import WritesRefused
from headwise.interventions.edits.prune import Prune
from headwise.models.inputs.encoding import RunInput, encode
from headwise.models.inputs.sample_input import sample_input
from headwise.models.inputs.token_text import token_texts
from headwise.models.model import Model
from headwise.models.run import Run
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    from headwise.interventions.edited import EditedModel

TOP = 3


@dataclass(frozen=True)
class Effect:
    """Output before and after the edits, on one input.

    Attributes:
        output: the name of the compared output: "logits", or the first one.
        tokens: how many tokens the comparison is over; padding is excluded.
        kl: KL(before || after) of the next-token distribution, nats, mean over tokens; None for a model without one.
        worst: the largest of these.
        same_first: the share of tokens whose most likely next token stays the same.
        before, after: the most likely next tokens at the end of the (first) text, with their probabilities.
        cosine: of the output before with that after, mean over tokens.
        writes: by part: the mean norm of each head's write, after over before; a row a layer; None where writes cannot be separated by head.
    """

    output: str
    tokens: int
    kl: float | None
    worst: float | None
    same_first: float | None
    before: tuple[tuple[str, float], ...]
    after: tuple[tuple[str, float], ...]
    cosine: float
    writes: Mapping[str, tuple[tuple[float, ...], ...] | None]


@renamed_parameters(what="inputs")
def effect(edited: "EditedModel", inputs: RunInput | None = None) -> Effect:
    """Compare the original with the edited model on one input.

    Args:
        inputs: as `Model.run` takes it; a few tokens when None.
    """
    base = edited.base
    kwargs = dict(encode(base.hf, base.tokenizer, sample_input(base.hf) if inputs is None else inputs).kwargs)
    one, two = base.run(kwargs, statistics=()), edited.run(kwargs, statistics=())
    name = "logits" if "logits" in one.outputs else next(name for name, x in one.outputs.items() if x.is_floating_point())
    before, after = one.outputs[name].double(), two.outputs[name].double()
    writes = {part: _write_ratios(edited, one, two, places) for part, places in edited.head_map.parts.items()}
    real = _real(kwargs, before)
    cosine = float(torch.cosine_similarity(before, after, dim=-1)[real].mean())
    if name != "logits" or before.dim() != 3:
        return Effect(name, int(real.sum()), None, None, None, (), (), cosine, writes)
    kl = (before.softmax(-1) * (before.log_softmax(-1) - after.log_softmax(-1))).sum(-1)[real]
    same = (before.argmax(-1) == after.argmax(-1))[real].double().mean()
    last = int(real[0].nonzero().max())
    first, then = (_top_tokens(base, x[0, last]) for x in (before, after))
    return Effect(name, int(real.sum()), float(kl.mean()), float(kl.max()), float(same), first, then, cosine, writes)


def _real(kwargs: Mapping[str, Any], output: Tensor) -> Bool[Tensor, "..."]:
    """Which vectors of the output are not padding."""
    for name in ("decoder_attention_mask", "attention_mask"):
        mask = kwargs.get(name)
        if isinstance(mask, Tensor) and mask.shape == output.shape[:2] and output.dim() == 3:
            return mask.bool()
    return torch.ones(output.shape[:-1], dtype=torch.bool)


def _top_tokens(model: Model, logits: Float[Tensor, " V"]) -> tuple[tuple[str, float], ...]:
    found = logits.softmax(-1).topk(min(TOP, len(logits)))
    tokens = [token_texts(model.tokenizer, [token])[0] for token in found.indices.tolist()]
    return tuple(zip(tokens, found.values.tolist(), strict=True))


def _write_ratios(edited: "EditedModel", one: Run, two: Run, places: list[Place]) -> tuple[tuple[float, ...], ...] | None:
    """Each head's mean write norm after over before; 0 for a pruned head."""
    part = places[0].part
    try:
        before, after = (run.writes_of(part)["norm"].mean(("batch", "query")).values for run in (one, two))
    except WritesRefused:
        return None
    pruned = {(call, head) for one in edited.plan.weights if isinstance(one, Prune) for call, head, _ in one.targets(edited.head_map)}
    rows = []
    for place in places:
        kept = [head for head in range(place.heads) if (place.index, head) not in pruned]
        row = [0.0] * place.heads
        for new, head in enumerate(kept):
            row[head] = float(after[place.layer, new] / before[place.layer, head]) if before[place.layer, head] else float("nan")
        rows.append(tuple(row))
    return tuple(rows)
