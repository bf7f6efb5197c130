"""A model with texts, and what claims measure on them: each quantity is computed once, when a claim first needs it."""

from collections.abc import Collection, Iterable, Sequence
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
from headwise.experiments.annotation_files import AnnotationFiles
from headwise.experiments.bible_text import excerpts
from headwise.experiments.card import Card
from headwise.experiments.text_preparation import sample_texts, truncate_texts
from headwise.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model
    from headwise.models.run import Run

Head = tuple[int, int]  # layer and head
LENGTH, LIMIT = 48, 32  # tokens read of each text, and number of texts
ROLE_TEXTS = 64  # texts for each role, at most
ABLATION_FLOPS, FEWEST = 20e12, 8  # what ablating each head alone may cost, and the texts it is always done on
CACHE_BYTES = 1 << 30  # of activations kept between claims


class Study:
    """A model, texts, and the measurements that several claims share.

    Args:
        model: as `open_model` returns it.
        texts: the user's; English prose if absent.
        annotations: files with annotations, for the claims that need them.
        seed: of every random draw.
        length: tokens read of each text.
        limit: texts read; if there are more, some are drawn at random.
        progress: called as work advances.

    Attributes:
        model: the model.
        own_texts: whether the user gave the texts.
    """

    def __init__(
        self,
        model: "Model",
        texts: Sequence[str] | None = None,
        *,
        annotations: AnnotationFiles | None = None,
        seed: int = 0,
        length: int = LENGTH,
        limit: int = LIMIT,
        progress: ProgressCallback = no_progress,
    ) -> None:
        self.model, self.seed, self.length, self.limit, self.progress = model, seed, length, limit, progress
        self.annotations = annotations or AnnotationFiles()
        self.own_texts = texts is not None
        self._given = check_texts(texts) if texts is not None else None
        self._passages: dict[int, EvalText] = {}
        self._cached_bytes = 0

    @cached_property
    def texts(self) -> list[str]:
        """The texts, each cut to at most `length` tokens.

        Raises:
            ModelError: the model has no tokenizer.
            ArgumentError: a text is too short to measure anything on.
            MissingPackage: no texts were given, and the package with the default ones is not installed.
        """
        if self.model.tokenizer is None:
            raise ModelError("This model has no tokenizer, which claims need to read text. Pass tokenizer= to open_model.")
        return truncate_texts(self.model, self.full_texts, self.length)

    @cached_property
    def full_texts(self) -> list[str]:
        """The same texts uncut, for claims about long ones."""
        return sample_texts(self._given if self._given is not None else excerpts(), self.limit, self.seed)

    @cached_property
    def token_count(self) -> int:
        """Tokens of all texts, special tokens included."""
        return self.tokens_of(range(len(self.texts)))

    def tokens_of(self, numbers: Iterable[int]) -> int:
        """Tokens of some of the texts."""
        return sum(len(self.model.tokenizer(self.texts[number])["input_ids"]) for number in numbers)

    @cached_property
    def loss(self) -> str:
        """The loss whose increase measures ablation: "next", "masked", "kl" or "cosine", the one that fits the model."""
        return loss_name(self.model, None)

    @cached_property
    def part(self) -> str:
        """The part whose heads are studied: the first with self-attention."""
        found = self.model.run(self.texts[0], statistics=(), memory=0).places
        return next((place.part for place in found if not place.cross), found[0].part)

    @property
    def heads(self) -> list[Head]:
        """Every head of the part as (layer, head)."""
        return [(layer, head) for layer, place in enumerate(self.passage(0).places) for head in range(place.heads)]

    @cached_property
    def _opener(self) -> Evaluator:
        return Evaluator(self.model, self.loss, self.part, self.seed)

    def passage(self, number: int) -> EvalText:
        """A text with its activations, from which partial forward passes start; kept while there is room."""
        if number not in self._passages:
            made = self._opener.open(self.texts[number])
            self._opener.learn(made)
            self._cached_bytes += _bytes(made)
            if self._cached_bytes > CACHE_BYTES:
                return made
            self._passages[number] = made
        return self._passages[number]

    @cached_property
    def base(self) -> Float[Tensor, " n"]:
        """The unchanged model's loss on each text."""
        return torch.tensor([self.passage(number).base for number in range(len(self.texts))], dtype=torch.float64)

    @cached_property
    def counts(self) -> Float[Tensor, " n"]:
        """How many tokens each text's loss is a mean over: the weights of means over texts."""
        return torch.tensor([float(self.passage(number).loss.tokens) for number in range(len(self.texts))], dtype=torch.float64)

    def losses(self, heads: Collection[Head]) -> Float[Tensor, " n"]:
        """The loss on each text with these heads ablated together."""
        return self.losses_of(self.head_mask(heads)[None])[:, 0]

    def losses_of(self, masks: Bool[Tensor, "N L H"]) -> Float[Tensor, "n N"]:
        """The loss on each text for each of N sets of ablated heads, many in one batch."""
        found = []
        for number in range(len(self.texts)):
            found.append(joint_ablation_losses(self.passage(number), masks, zero_ablation))
            self.progress("ablating heads", number + 1, len(self.texts))
        return torch.stack(found)

    def head_mask(self, heads: Collection[Head]) -> Bool[Tensor, "L H"]:
        """These heads as a mask over (layer, head): one row for `losses_of`.

        Raises:
            ArgumentError: the part has no such head.
        """
        places = self.passage(0).places
        found = torch.zeros(len(places), max(place.heads for place in places), dtype=torch.bool)
        for layer, head in heads:
            if not (0 <= layer < len(places) and 0 <= head < places[layer].heads):
                raise ArgumentError(f"heads must be of the part {self.part} of this model, got {(layer, head)!r}. Look at study.heads.")
            found[layer, head] = True
        return found

    def runs(self) -> "list[Run]":
        """A run of each text with all statistics; queries and keys are recomputed when needed."""
        return self._runs

    @cached_property
    def _runs(self) -> "list[Run]":
        found = []
        for number, text in enumerate(self.texts):
            found.append(self.model.run(text, memory="32MiB"))
            self.progress("running texts", number + 1, len(self.texts))
        return found

    @cached_property
    def ablation_texts(self) -> list[int]:
        """Numbers of the texts on which each head is ablated alone: all, or a random few for a large model, since this costs the most."""
        heads, parameters = len(self.heads), sum(x.numel() for x in self.model.hf.parameters())
        flops_per_text = heads * 2 * parameters * self.token_count / len(self.texts)
        count = min(len(self.texts), max(FEWEST, int(ABLATION_FLOPS / flops_per_text)))
        return sorted(Random(self.seed).sample(range(len(self.texts)), count))

    @cached_property
    def effects(self) -> Float[Tensor, "a L H"]:
        """The exact increase in loss on each of `ablation_texts` when one head is ablated; NaN where a layer has fewer heads."""
        found = []
        for done, number in enumerate(self.ablation_texts, start=1):
            passage = self.passage(number)
            rows = [ablated_losses(passage, place, zero_ablation(passage, place.index)) - passage.base for place in passage.places]
            most = max(map(len, rows))
            found.append(torch.stack([torch.cat([row, row.new_full((most - len(row),), torch.nan)]) for row in rows]))
            self.progress("ablating each head", done, len(self.ablation_texts))
        return torch.stack(found)

    @cached_property
    def gradient(self) -> "xarray.Dataset | None":
        """`hw.rank` by gradient; None where the loss has no gradient at the unchanged model."""
        if self.loss in ("kl", "cosine"):
            return None
        return rank(
            self.model,
            self.texts,
            "gradient",
            loss=self.loss,
            part=self.part,
            seed=self.seed,
            progress=lambda _, done, total: self.progress("gradients", done, total),
        )

    @cached_property
    def shares(self) -> Float[Tensor, "n L H"]:
        """For each text, each head's share of the norms that its layer's heads write; NaN where a layer has fewer heads."""
        found = []
        for number in range(len(self.texts)):
            rows = write_shares(self.passage(number))
            most = max(map(len, rows))
            found.append(torch.tensor([[*row, *[torch.nan] * (most - len(row))] for row in rows], dtype=torch.float64))
            self.progress("measuring what heads write", number + 1, len(self.texts))
        return torch.stack(found)

    @cached_property
    def roles(self) -> "xarray.Dataset":
        """`hw.roles` with the annotations at hand."""
        files = self.annotations
        return roles(
            self.model,
            texts=self.texts,
            conllu=files.conllu,
            gap=files.gap,
            winobias=files.winobias,
            part=self.part,
            limit=ROLE_TEXTS,
            seed=self.seed,
            progress=lambda role, done, total: self.progress(f"role {role}", done, total),
        )

    def too_few_texts(self, needed: int, quantity: str) -> Card | None:
        """The card of a claim that these texts are too few for; None if they suffice.

        Args:
            quantity: the subject of the sentence, such as "the share of heads that can be removed".
        """
        if len(self.texts) >= needed:
            return None
        summary = f"{quantity} needs at least {needed} texts to be measured; got {len(self.texts)}. Give more texts."
        return Card("inconclusive", summary[0].upper() + summary[1:], texts=len(self.texts), tokens=self.token_count)


def _bytes(passage: EvalText) -> int:
    """The memory of a text's activations, small things aside."""
    cache = passage.forward.cache
    of_steps = [x for step in cache.blocks for x in (step.input, step.output) if isinstance(x, Tensor)]
    return sum(x.numel() * x.element_size() for x in (*cache.z, *cache.wo_inputs.values(), *cache.outputs.values(), *of_steps))
