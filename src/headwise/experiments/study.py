"""What claims share: the model, the texts, and what is measured on them, each once, when a claim first asks."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

import torch

from headwise.analysis.ablation.eval_text import EvalText, Evaluator, check_texts, loss_name
from headwise.analysis.ablation.exact_ablation import ablated_losses, joint_ablation_losses, zero_ablation
from headwise.analysis.ablation.rank import rank
from headwise.analysis.ablation.work_units import write_shares
from headwise.analysis.roles.find_roles import roles
from headwise.axes import Bool, Float, Tensor
from headwise.errors import ArgumentError, ModelError
from headwise.experiments.annotated_files import Annotated
from headwise.experiments.bible_passages import passages
from headwise.experiments.card import Card
from headwise.experiments.claim_texts import cut, draw

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model
    from headwise.models.run import Run

Tell = Callable[[str, int, int], None]  # what is done, how much of it, of how much
Head = tuple[int, int]  # layer and head
LENGTH, LIMIT = 48, 32  # tokens of a text that are read, and texts
CAST = 64  # texts for each role, at most
WORK, FEWEST = 20e12, 8  # FLOPs that silencing each head alone may take, and texts on which it is done in any case
HELD = 1 << 30  # bytes of passes that are kept on tape


class Study:
    """A model, texts, and what claims ask of them.

    Args:
        texts: of the user; English prose when absent.
        annotated: files with annotations, for the claims that need them.
        seed: of what is drawn at random.
        length: tokens of a text that are read.
        limit: texts that are read: more are drawn from at random.
        tell: told of the progress.

    Attributes:
        model: as `open_model` gave it.
        own_texts: whether the user gave them.
    """

    def __init__(
        self,
        model: "Model",
        texts: Sequence[str] | None = None,
        *,
        annotated: Annotated | None = None,
        seed: int = 0,
        length: int = LENGTH,
        limit: int = LIMIT,
        tell: Tell = lambda doing, done, total: None,
    ) -> None:
        self.model, self.seed, self.length, self.limit, self.tell = model, seed, length, limit, tell
        self.annotated = annotated or Annotated()
        self.own_texts = texts is not None
        self._given = check_texts(texts) if texts is not None else None
        self._passages: dict[int, EvalText] = {}
        self._held = 0

    @cached_property
    def texts(self) -> list[str]:
        """The texts, each no longer than `length` tokens.

        Raises:
            ModelError: the model reads no text.
            ArgumentError: a text that is too short to foretell anything.
            MissingPackage: no texts, and none installed.
        """
        if self.model.tokenizer is None:
            raise ModelError("a tokenizer must be there to read text, got none with this model. Pass tokenizer= to open_model.")
        return cut(self.model, self.uncut, self.length)

    @cached_property
    def uncut(self) -> list[str]:
        """The same texts in full, for what is about long ones."""
        return draw(self._given if self._given is not None else passages(), self.limit, self.seed)

    @cached_property
    def words(self) -> int:
        """Tokens of all texts, those that the tokenizer puts around them too."""
        return self.words_of(range(len(self.texts)))

    def words_of(self, numbers: Iterable[int]) -> int:
        """Tokens of some texts."""
        return sum(len(self.model.tokenizer(self.texts[number])["input_ids"]) for number in numbers)

    @cached_property
    def loss(self) -> str:
        """What is lost when a head is silenced: "next", "masked", "kl" or "cosine"; the model's own."""
        return loss_name(self.model, None)

    @cached_property
    def part(self) -> str:
        """The part whose heads are looked at: the first in which tokens look at their own sequence."""
        found = self.model.run(self.texts[0], statistics=(), memory=0).places
        return next((place.part for place in found if not place.cross), found[0].part)

    @property
    def heads(self) -> list[Head]:
        """Every head of the part, by layer and number."""
        return [(layer, head) for layer, place in enumerate(self.passage(0).places) for head in range(place.heads)]

    @cached_property
    def _opener(self) -> Evaluator:
        return Evaluator(self.model, self.loss, self.part, self.seed)

    def passage(self, number: int) -> EvalText:
        """A text on tape, from which it can be run again with changes; kept while there is room."""
        if number not in self._passages:
            made = self._opener.open(self.texts[number])
            self._opener.learn(made)
            self._held += _bytes(made)
            if self._held > HELD:
                return made
            self._passages[number] = made
        return self._passages[number]

    @cached_property
    def base(self) -> Float[Tensor, " n"]:
        """The loss on each text, of the unchanged model."""
        return torch.tensor([self.passage(number).base for number in range(len(self.texts))], dtype=torch.float64)

    @cached_property
    def counts(self) -> Float[Tensor, " n"]:
        """Of each text the tokens that its loss is a mean over: weights of means over texts."""
        return torch.tensor([float(self.passage(number).loss.tokens) for number in range(len(self.texts))], dtype=torch.float64)

    def losses(self, heads: Collection[Head]) -> Float[Tensor, " n"]:
        """The loss on each text with these heads silenced."""
        return self.losses_of(self.plan(heads)[None])[:, 0]

    def losses_of(self, plans: Bool[Tensor, "N L H"]) -> Float[Tensor, "n N"]:
        """The loss on each text for each of N choices of heads to silence: many go into one batch."""
        found = []
        for number in range(len(self.texts)):
            found.append(joint_ablation_losses(self.passage(number), plans, zero_ablation))
            self.tell("silencing heads", number + 1, len(self.texts))
        return torch.stack(found)

    def plan(self, heads: Collection[Head]) -> Bool[Tensor, "L H"]:
        """These heads as a table: a row for `losses_of`.

        Raises:
            ArgumentError: there is no such head.
        """
        places = self.passage(0).places
        found = torch.zeros(len(places), max(place.heads for place in places), dtype=torch.bool)
        for layer, head in heads:
            if not (0 <= layer < len(places) and 0 <= head < places[layer].heads):
                raise ArgumentError(f"heads must be of the part {self.part} of this model, got {(layer, head)!r}. Look at study.heads.")
            found[layer, head] = True
        return found

    def runs(self) -> "list[Run]":
        """A run of each text, with all statistics; queries and keys are made again when they are asked for."""
        return self._runs

    @cached_property
    def _runs(self) -> "list[Run]":
        found = []
        for number, text in enumerate(self.texts):
            found.append(self.model.run(text, memory="32MiB"))
            self.tell("reading", number + 1, len(self.texts))
        return found

    @cached_property
    def ablated(self) -> list[int]:
        """The texts on which each head is silenced alone: all, or some drawn at random where the model is large, as a pass for each head costs most of all."""
        heads, parameters = len(self.heads), sum(x.numel() for x in self.model.hf.parameters())
        of_text = heads * 2 * parameters * self.words / len(self.texts)  # FLOPs
        count = min(len(self.texts), max(FEWEST, int(WORK / of_text)))
        return sorted(Random(self.seed).sample(range(len(self.texts)), count))

    @cached_property
    def effects(self) -> Float[Tensor, "a L H"]:
        """By how much the loss on each text of `ablated` grows when one head is silenced, exactly; NaN where a layer lacks the head."""
        found = []
        for done, number in enumerate(self.ablated, start=1):
            passage = self.passage(number)
            rows = [ablated_losses(passage, place, zero_ablation(passage, place.index)) - passage.base for place in passage.places]
            most = max(map(len, rows))
            found.append(torch.stack([torch.cat([row, row.new_full((most - len(row),), torch.nan)]) for row in rows]))
            self.tell("silencing each head", done, len(self.ablated))
        return torch.stack(found)

    @cached_property
    def gradient(self) -> "xarray.Dataset | None":
        """`hw.rank` by gradient; None where the loss has no slope."""
        if self.loss in ("kl", "cosine"):
            return None
        return rank(self.model, self.texts, "gradient", loss=self.loss, part=self.part, seed=self.seed, tell=self._about("gradients"))

    @cached_property
    def shares(self) -> Float[Tensor, "n L H"]:
        """Of each text the share of what the heads of a layer add together that is each head's; NaN where a layer lacks the head."""
        found = []
        for number in range(len(self.texts)):
            rows = write_shares(self.passage(number))
            most = max(map(len, rows))
            found.append(torch.tensor([[*row, *[torch.nan] * (most - len(row))] for row in rows], dtype=torch.float64))
            self.tell("what heads write", number + 1, len(self.texts))
        return torch.stack(found)

    @cached_property
    def cast(self) -> "xarray.Dataset":
        """`hw.roles`, with the annotations that there are."""
        notes = self.annotated
        return roles(
            self.model,
            texts=self.texts,
            conllu=notes.conllu,
            gap=notes.gap,
            winobias=notes.winobias,
            part=self.part,
            limit=CAST,
            seed=self.seed,
            tell=lambda role, done, total: self.tell(f"role {role}", done, total),
        )

    def few(self, needed: int, what: str) -> Card | None:
        """The card of a claim that cannot be judged by so few texts; None where there are enough.

        Args:
            what: "the share of heads that can go"
        """
        if len(self.texts) >= needed:
            return None
        says = f"{what} must be measured on {needed} texts or more, got {len(self.texts)}. Give more texts."
        return Card("can't tell", says[0].upper() + says[1:], texts=len(self.texts), tokens=self.words)

    def _about(self, doing: str) -> Callable[[int, int], None]:
        return lambda done, total: self.tell(doing, done, total)


def _bytes(passage: EvalText) -> int:
    """What a tape holds, but for small things."""
    cache = passage.forward.cache
    of_steps = [x for step in cache.blocks for x in (step.input, step.output) if isinstance(x, Tensor)]
    return sum(x.numel() * x.element_size() for x in (*cache.z, *cache.wo_inputs.values(), *cache.outputs.values(), *of_steps))
