"""Texts made ready for questions: their ids, the tokens as text, and what random ids may be drawn from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.roles import random_prose as prose
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Reading
from headwise.axes import Int, Tensor
from headwise.errors import ModelError
from headwise.models.inputs.encoding import encode, max_positions

if TYPE_CHECKING:
    from headwise.models.model import Model

LONGEST = 512  # tokens of a text that are read
PARAGRAPHS, SENTENCES = 24, 16  # of plain English, where no text is given


@dataclass(frozen=True, eq=False)
class Text(Reading):
    """A text as the model reads it, with its tokens."""

    given: Mapping[str, Any]
    tokens: Sequence[str]

    @property
    def ids(self) -> Int[Tensor, " T"]:
        return self.given["input_ids"][0]


def texts(model: "Model", corpus: Corpus) -> Iterator[Text]:
    """The material's texts, as many tokens of each as fit; plain English where there are none.

    Raises:
        ModelError: there is no tokenizer.
    """
    if model.tokenizer is None:
        raise ModelError("This model has no tokenizer to read text with. Pass tokenizer= to open_model.")
    for text in corpus.some(corpus.texts or made_up(corpus)):
        ids = torch.tensor(model.tokenizer(text)["input_ids"][: longest(model)], dtype=torch.int64)
        if len(ids) > 1:
            inputs = encode(model.hf, model.tokenizer, ids)
            yield Text(inputs.kwargs, inputs.tokens[0])


def made_up(corpus: Corpus) -> list[str]:
    random = corpus.random()
    return [prose.text(random, SENTENCES) for _ in range(PARAGRAPHS)]


@dataclass(frozen=True)
class SpecialTokens:
    """What the tokenizer puts around a text, and the ids that are plain tokens."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    plain: tuple[int, ...]

    def around(self, ids: Sequence[int]) -> Int[Tensor, "1 T"]:
        return torch.tensor([[*self.before, *ids, *self.after]])


def special_tokens(model: "Model") -> SpecialTokens:
    """From the tokenizer; without one, nothing around and every id of the vocabulary.

    Raises:
        ModelError: the model does not read tokens.
    """
    if model.tokenizer is None:
        table = getattr(model.hf, "get_input_embeddings", lambda: None)()
        if not isinstance(table, torch.nn.Embedding):
            raise ModelError(f"random tokens must be ones that the model reads, got {type(model.hf).__name__}, which reads none. Leave this role out.")
        return SpecialTokens((), (), tuple(range(table.num_embeddings)))
    whole = list(model.tokenizer("a")["input_ids"])
    inner = list(model.tokenizer("a", add_special_tokens=False)["input_ids"])
    start = next((i for i in range(len(whole)) if whole[i : i + len(inner)] == inner), 0)
    special = set(model.tokenizer.all_special_ids)
    plain = tuple(i for i in range(len(model.tokenizer)) if i not in special)
    return SpecialTokens(tuple(whole[:start]), tuple(whole[start + len(inner) :]), plain)


def longest(model: "Model") -> int:
    """Tokens that fit the model, up to `LONGEST`."""
    limit = max_positions(model.hf)
    return LONGEST if limit is None else min(LONGEST, limit)


def drawn(random: Random, special_tokens: SpecialTokens, count: int) -> list[int]:
    """Different ids at random."""
    return random.sample(special_tokens.plain, min(count, len(special_tokens.plain)))
