"""One text made ready to be run again and again, and the loss on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import ArgumentError, ArgumentTypeError, WritesRefused
from headwise.heads.again import Again
from headwise.heads.losses import LOSSES, Loss, loss_of, masked
from headwise.models.inputs import encode
from headwise.models.parts import Place

if TYPE_CHECKING:
    from headwise.models.model import Model

TOKENS = 2048  # of all copies of a text that go into one batch


@dataclass(frozen=True, eq=False)
class Passage:
    """A text on tape.

    Attributes:
        places: the attention calls whose heads are looked at.
        base: the loss of the unchanged model.
    """

    again: Again
    places: tuple[Place, ...]
    loss: Loss
    base: float

    @property
    def at_once(self) -> int:
        """How many copies of the text go into one batch."""
        if not self.again.copies:
            return 1
        tokens = max(read.shape[0] * read.shape[1] for read in self.again.tape.reads.values())
        return max(1, TOKENS // tokens)


def open_passage(model: "Model", what: Any, loss: str, part: str | None, seed: int = 0) -> Passage:
    """Run a text once and write it down.

    Raises:
        WritesRefused: the heads of a layer cannot be told apart.
        ArgumentError: no such part; a loss that the model cannot have.
    """
    given, labels = dict(encode(model.hf, model.tokenizer, what).given), None
    if loss == "masked":
        given, labels = masked(given, _mask_of(model), set(model.tokenizer.all_special_ids), seed)
    run = model.run(given, statistics=(), memory=0)
    again = Again(run.session)
    places = _places(run.places, part)
    for place in places:
        if place.index not in again.tape.reads:
            raise WritesRefused(f"writes of {place.module} cannot be told by head: {run.session.layout.sites[place.index].refusal}.")
    judged = loss_of(loss, again, labels)
    with torch.no_grad():
        base = float(judged(again.tape.outputs, 1)) if judged.tokens else float("nan")
    return Passage(again, places, judged, base)


def loss_name(model: "Model", asked: str | None) -> str:
    """The loss that was asked for; else the model's own: next token, masked token, or how far its output turns.

    Raises:
        ArgumentError: there is no such loss.
    """
    if asked is not None:
        if asked not in LOSSES:
            raise ArgumentError(f"loss must be one of {', '.join(LOSSES)}, got {asked!r}. Leave it out for the model's own.")
        if asked == "masked":
            _mask_of(model)
        return asked
    kind = type(model.hf).__name__
    if not isinstance(model.hf, PreTrainedModel) or model.hf.get_output_embeddings() is None:
        return "cosine"
    if "MaskedLM" in kind or "PreTraining" in kind:
        return "masked" if getattr(model.tokenizer, "mask_token_id", None) is not None else "kl"
    return "next"


def _mask_of(model: "Model") -> int:
    found = getattr(model.tokenizer, "mask_token_id", None)
    if found is None:
        raise ArgumentError(f"loss 'masked' must have a token that masks, got none in the tokenizer of {model.name}. Choose 'next', 'kl' or 'cosine'.")
    return found


def _places(places: Sequence[Place], part: str | None) -> tuple[Place, ...]:
    parts = list(dict.fromkeys(place.part for place in places))
    if part is None and len(parts) > 1:
        raise ArgumentError(f"part must be given where a model has several, got None. Choose one of {', '.join(parts)}.")
    if part is not None and part not in parts:
        raise ArgumentError(f"part must be one of {', '.join(parts)} in this model, got {part!r}. Choose one.")
    return tuple(place for place in places if part in (None, place.part))


def check_texts(texts: Any) -> list[Any]:
    """The texts, or other inputs, as a list.

    Raises:
        ArgumentError: there are none.
    """
    if isinstance(texts, str | Mapping | Tensor):
        return [texts]
    if not isinstance(texts, Sequence):
        raise ArgumentTypeError(f"texts must be a text, a list of texts or of the model's own inputs, got {type(texts).__name__}.")
    if not texts:
        raise ArgumentError("texts must hold at least one text, got an empty list. Pass a text.")
    return list(texts)


def widths(places: Sequence[Place]) -> int:
    """Heads of the layer with the most."""
    return max(place.heads for place in places)


def blank(places: Sequence[Place]) -> Tensor:
    """[L, H] of numbers that are not known yet."""
    return torch.full((len(places), widths(places)), torch.nan, dtype=torch.float64)
