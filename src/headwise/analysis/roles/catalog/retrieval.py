"""Finding a needle in filler text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from headwise.analysis.roles import random_prose as prose
from headwise.analysis.roles.baselines import offsets, uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Reading, Role
from headwise.analysis.roles.tokenized_text import longest
from headwise.analysis.roles.word_alignment import tokens_of
from headwise.axes import Int, Tensor

TEXTS, SENTENCES, DIGITS = 32, (6, 18), 5
NAMES = ("Berlin", "Tokyo", "Paris", "Cairo", "Lima", "Oslo", "Rome", "Delhi")


@dataclass(frozen=True, eq=False)
class Haystack(Reading):
    """A text with a number in it, piece by piece, and what asks for each piece: the token that foretells it, the one before it or the mask in its place."""

    given: Int[Tensor, "1 T"]
    needle: Int[Tensor, " n"]
    query: Int[Tensor, " n"]


def read(model, corpus: Corpus) -> Iterator[Haystack]:
    """The number is told somewhere, and asked for at the end. A model that sees ahead gets its mask in place of the answer."""
    random, mask = corpus.random(), getattr(model.tokenizer, "mask_token_id", None)
    if corpus.ahead and mask is None:
        return
    for _ in range(min(TEXTS, corpus.limit)):
        sentences = [prose.sentence(random) for _ in range(random.randint(*SENTENCES))]
        name, number = random.choice(NAMES), "".join(random.choice("0123456789") for _ in range(DIGITS))
        told = f"The secret number of {name} is {number}."
        sentences.insert(random.randrange(len(sentences)), told)
        text = f"{' '.join(sentences)} What is the secret number of {name}? The secret number of {name} is {number}."
        first, second = text.index(number), text.rindex(number)
        ids, (needle, answer) = tokens_of(model.tokenizer, text, [(first, first + DIGITS), (second, second + DIGITS)])
        if len(needle) == len(answer) and len(ids) <= longest(model):
            yield _haystack(ids, needle, answer, mask if corpus.ahead else None)


def _haystack(ids: list[int], needle: Sequence[int], answer: Sequence[int], mask: int | None) -> Haystack:
    given = torch.tensor([ids])
    if mask is not None:
        given[0, list(answer)] = mask
    return Haystack(given, torch.tensor(needle), torch.tensor(answer) - int(mask is None))


def asker(model, corpus: Corpus) -> Ask:
    return lambda text: [_question(text, corpus.ahead)]


def _question(text: Haystack, ahead: bool) -> Questions:
    length = text.given.shape[1]
    right = torch.arange(length) == text.needle[:, None]
    among = visible(text.query, length, ahead)
    guesses = {**offsets(text.query, right, range(-length, 0)), "uniform": uniform(right, among)}
    return Questions("the needle's next piece", text.query, right, among, guesses)


ENTRY = Role(
    definition="when a number is asked for, looks at the piece of it that comes next, wherever in the text it was told",
    source="Wu et al. 2024, retrieval heads: most of the weight on the token that is to be copied",
    baseline="the best fixed offset; the same weight everywhere",
    hit=True,
    read=read,
    ask=asker,
)
