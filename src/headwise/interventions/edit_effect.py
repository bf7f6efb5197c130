"""What edits do to the model's answer, on one input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headwise.axes import Float, Tensor
from headwise.errors import WritesRefused
from headwise.interventions.edits.prune import Prune
from headwise.models.inputs.encoding import encode
from headwise.models.inputs.sample_input import sample_input
from headwise.models.inputs.token_text import token_texts
from headwise.models.model import Model
from headwise.models.run import Run
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    from headwise.interventions.edited import EditedModel

LIKELIEST = 3


@dataclass(frozen=True)
class Effect:
    """Before and after, on one input.

    Attributes:
        output: the name of what is compared: logits, or the first output.
        tokens: how many there are.
        kl: KL(before || after) of the next token, nats, mean over tokens; None for a model that predicts none.
        worst: the largest of these.
        same_first: the share of tokens whose likeliest next one is the same.
        before, after: the likeliest tokens at the end of the (first) text, with their probabilities.
        cosine: of the output before with that after, mean over tokens.
        writes: by part: the mean length of what each head writes, after over before; a row a layer; None where heads cannot be told apart.
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


def effect(edited: "EditedModel", what: Any = None) -> Effect:
    """Run the original and the edited model on one input.

    Args:
        what: as `Model.run` takes it; a few tokens when None.
    """
    base = edited.base
    given = dict(encode(base.hf, base.tokenizer, sample_input(base.hf) if what is None else what).kwargs)
    one, two = base.run(given, statistics=()), edited.run(given, statistics=())
    name = "logits" if "logits" in one.outputs else next(name for name, x in one.outputs.items() if x.is_floating_point())
    before, after = one.outputs[name].double(), two.outputs[name].double()
    writes = {part: _writes(edited, one, two, places) for part, places in edited.head_map.parts.items()}
    cosine = float(torch.cosine_similarity(before, after, dim=-1).mean())
    if name != "logits" or before.dim() != 3:
        return Effect(name, before.shape[1] if before.dim() > 1 else 1, None, None, None, (), (), cosine, writes)
    real = _real(given, before)
    kl = (before.softmax(-1) * (before.log_softmax(-1) - after.log_softmax(-1))).sum(-1)[real]
    same = (before.argmax(-1) == after.argmax(-1))[real].double().mean()
    last = int(real[0].nonzero().max())
    first, then = (_likeliest(base, x[0, last]) for x in (before, after))
    return Effect(name, int(real.sum()), float(kl.mean()), float(kl.max()), float(same), first, then, cosine, writes)


def _real(given: Mapping[str, Any], logits: Tensor) -> Tensor:
    mask = given.get("attention_mask")
    fits = isinstance(mask, Tensor) and mask.shape == logits.shape[:2]
    return mask.bool() if fits else torch.ones(logits.shape[:2], dtype=torch.bool)  # pyright: ignore[reportOptionalMemberAccess]


def _likeliest(model: Model, logits: Float[Tensor, " V"]) -> tuple[tuple[str, float], ...]:
    found = logits.softmax(-1).topk(min(LIKELIEST, len(logits)))
    texts = [token_texts(model.tokenizer, [token])[0] for token in found.indices.tolist()]
    return tuple(zip(texts, found.values.tolist(), strict=True))


def _writes(edited: "EditedModel", one: Run, two: Run, places: list[Place]) -> tuple[tuple[float, ...], ...] | None:
    """After over before; 0 for a head that is gone."""
    part = places[0].part
    try:
        before, after = (run.writes_of(part)["norm"].mean(("batch", "query")).values for run in (one, two))
    except WritesRefused:
        return None
    gone = {(call, head) for one in edited.plan.weights if isinstance(one, Prune) for call, head, _ in one.claims(edited.head_map)}
    rows = []
    for place in places:
        kept = [head for head in range(place.heads) if (place.index, head) not in gone]
        row = [0.0] * place.heads
        for now, head in enumerate(kept):
            row[head] = float(after[place.layer, now] / before[place.layer, head]) if before[place.layer, head] else float("nan")
        rows.append(tuple(row))
    return tuple(rows)
