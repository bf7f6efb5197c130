"""Random tokens, a part of them twice, at distances that differ from text to text."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from headwise.analysis.roles.baselines import offsets, uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Reading
from headwise.analysis.roles.tokenized_text import drawn, longest, special_tokens
from headwise.axes import Int, Tensor

TEXTS, FEWEST, SHORTEST, LONGEST, BETWEEN = 48, 3, 8, 32, 16


@dataclass(frozen=True, eq=False)
class Repeat(Reading):
    """A text, and where each token of the second copy stands with its earlier self."""

    given: Int[Tensor, "1 T"]
    second: Int[Tensor, " n"]
    first: Int[Tensor, " n"]


def repeats(model, corpus: Corpus) -> Iterator[Repeat]:
    """Texts in which the copy's length and place are drawn anew: with a fixed length a head that looks a fixed way back would be right too."""
    random, around = corpus.random(), special_tokens(model)
    room = longest(model) - len(around.before) - len(around.after)
    between = min(BETWEEN, room // 6)
    for _ in range(min(TEXTS, corpus.limit)):
        lead, gap = random.randint(1, max(between, 1)), random.randint(0, between)
        most = min(LONGEST, (room - lead - gap) // 2, len(around.plain) - lead - gap)
        if most < FEWEST:
            continue  # the model has no room for it, or too few tokens
        length = random.randint(min(SHORTEST, most), most)
        ids = drawn(random, around, length + lead + gap)
        part = ids[lead : lead + length]
        start = len(around.before)
        before = torch.arange(start + lead, start + lead + length)
        yield Repeat(around.around([*ids, *part]), before + length + gap, before)


def asker(model, corpus: Corpus, task: str, behind: int) -> Ask:
    """For each token of the copy: where it should look, so many tokens behind its earlier self."""

    def asked(repeat: Repeat) -> list[Questions]:
        kept = slice(1, len(repeat.second) - behind)
        query, length = repeat.second[kept], repeat.given.shape[1]
        right = torch.arange(length) == (repeat.first[kept] + behind)[:, None]
        among = visible(query, length, corpus.ahead)
        guesses = {**offsets(query, right, range(-(2 * LONGEST + BETWEEN), 0)), "uniform": uniform(right, among)}
        return [Questions(task, query, right, among, guesses)]

    return asked
