"""One text made ready to be run again and again, and the loss on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from headwise.analysis.ablation.losses import LOSSES, Loss, loss_of, masked
from headwise.analysis.ablation.partial_forward import PartialForward
from headwise.axes import Bool, Tensor
from headwise.errors import ArgumentError, ArgumentTypeError, WritesRefused
from headwise.models.capture.forward_pass import ForwardPass
from headwise.models.capture.recorder import LayoutChanged
from headwise.models.inputs.encoding import encode
from headwise.models.layout import Layout
from headwise.models.runs.places import Place, places

if TYPE_CHECKING:
    from headwise.models.model import Model

SHORT = 24  # tokens of the beginning on which a layout is learned
TOKENS = 2048  # of all copies of a text that go into one batch


@dataclass(frozen=True, eq=False)
class EvalText:
    """A text on tape.

    Attributes:
        places: the attention calls whose heads are looked at.
        base: the loss of the unchanged model.
    """

    forward: PartialForward
    places: tuple[Place, ...]
    loss: Loss
    base: float

    @property
    def at_once(self) -> int:
        """How many copies of the text go into one batch."""
        if not self.forward.copies:
            return 1
        tokens = max(read.shape[0] * read.shape[1] for read in self.forward.cache.wo_inputs.values())
        return max(1, TOKENS // tokens)


def real_queries(text: EvalText, place: Place) -> Bool[Tensor, "B T"]:
    """Which queries of an attention call are real tokens and not padding."""
    b, t = text.forward.cache.wo_inputs[place.index].shape[:2]
    inputs = text.forward.session.inputs
    names = ("decoder_attention_mask",) if place.part.startswith("decoder") and "decoder_input_ids" in inputs else ("attention_mask",)
    for name in names:
        mask = inputs.get(name)
        if isinstance(mask, Tensor) and mask.shape == (b, t):
            return mask.bool().cpu()
    return torch.ones(b, t, dtype=torch.bool)


class Evaluator:
    """Opens texts of one model; what it learns of the first of a kind it need not learn again.

    Args:
        loss: what is lost; see `losses`.
        part: whose heads are looked at, where the model has several.
    """

    def __init__(self, model: "Model", loss: str, part: str | None = None, seed: int = 0) -> None:
        self.model, self.loss, self.part, self.seed = model, loss, part, seed
        self.layouts: dict[tuple[str, ...], Layout] = {}
        self.ways: tuple[bool, bool] | None = None

    def open(self, what: Any) -> EvalText:
        """Run a text once and write it down.

        Raises:
            WritesRefused: the heads of a layer cannot be told apart.
            ArgumentError: no such part; a loss that the model cannot have.
        """
        given, labels = dict(encode(self.model.hf, self.model.tokenizer, what).kwargs), None
        if self.loss == "masked":
            given, labels = masked(given, _mask_of(self.model), set(self.model.tokenizer.all_special_ids), self.seed)
        forward, found = self._again(given)
        chosen = _chosen(found, self.part)
        for place in chosen:
            if place.index not in forward.cache.wo_inputs:
                raise WritesRefused(f"writes of {place.module} cannot be attributed to heads: {forward.session.layout.sites[place.index].refusal}.")
        judged = loss_of(self.loss, forward, labels)
        if not judged.tokens:
            raise ArgumentError(f"text must have a token that is foretold, got {next(iter(given.values())).numel()} tokens in all. Leave it out.")
        with torch.no_grad():
            base = float(judged(forward.cache.outputs, 1))
        return EvalText(forward, chosen, judged, base)

    def learn(self, passage: EvalText) -> None:
        """Remember how this passage can be run again."""
        self.ways = (passage.forward.reuses, passage.forward.copies)

    def _again(self, given: dict[str, Any]) -> tuple[PartialForward, Sequence[Place]]:
        """The pass on tape: by the layout of a shorter input where that fits, which costs less to learn than that of a long one."""
        kind = tuple(sorted(given))
        if kind not in self.layouts:
            self.layouts[kind] = self.model.run(_beginning(given), statistics=(), memory=0).forward_pass.layout
        layout = self.layouts[kind]
        if all(site.heads is None for site in layout.sites):
            try:
                draws = torch.random.get_rng_state()
                forward = PartialForward(ForwardPass(self.model.hf, given, layout), self.ways)
                if torch.equal(draws, torch.random.get_rng_state()):  # else the model draws random numbers, which a run remembers
                    return forward, places(self.model.hf, layout.sites, forward.cache.shapes)
            except LayoutChanged:
                pass  # a longer text takes another way
        run = self.model.run(given, statistics=(), memory=0)
        return PartialForward(run.forward_pass, self.ways), run.places


def _beginning(given: dict[str, Any]) -> dict[str, Any]:
    """The first tokens of a text, where all tensors are about tokens of one text without padding."""
    lengths = {x.shape[1] for x in given.values() if isinstance(x, Tensor) and x.dim() == 2}
    padded = any(isinstance(x, Tensor) and "mask" in name and not bool(x.all()) for name, x in given.items())
    if padded or any(isinstance(x, Tensor) and x.dim() != 2 for x in given.values()) or len(lengths) != 1:
        return given
    return {name: x[:, :SHORT] if isinstance(x, Tensor) else x for name, x in given.items()}


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


def _chosen(places: Sequence[Place], part: str | None) -> tuple[Place, ...]:
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
