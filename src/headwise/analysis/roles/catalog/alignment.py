"""Looking from a token at its counterpart: the sound of a word, the same atom before a reaction."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from headwise.analysis.roles.baselines import uniform
from headwise.analysis.roles.corpus import AlignedPairs, Corpus
from headwise.analysis.roles.role import Ask, Questions, Reading, Role


@dataclass(frozen=True, eq=False)
class AlignedReading(Reading):
    """An input, and which of its parts belong together."""

    aligned: AlignedPairs


def read(model, corpus: Corpus) -> Iterator[AlignedReading]:
    for aligned in corpus.some(corpus.aligned):
        yield AlignedReading(aligned.what, aligned)


def asker(model, corpus: Corpus) -> Ask:
    return lambda pair: [_question(pair.aligned)]


def _question(aligned: AlignedPairs) -> Questions:
    query = torch.tensor([token for asking, _ in aligned.pairs for token in asking])
    right = torch.zeros(len(query), aligned.keys, dtype=torch.bool)
    rows = iter(range(len(query)))
    for asking, asked in aligned.pairs:
        for _ in asking:
            right[next(rows), list(asked)] = True
    among = torch.zeros(aligned.keys, dtype=torch.bool)
    among[list(aligned.among) if aligned.among is not None else slice(None)] = True
    among = among.expand(right.shape)
    guesses = {"uniform": uniform(right, among), "diagonal": _diagonal(query, right, aligned)}
    return Questions(aligned.task, query, right, among, guesses)


def _diagonal(query, right, aligned: AlignedPairs):
    """What a head scores that goes through both sequences at an even pace."""
    span = sorted(aligned.among) if aligned.among is not None else range(aligned.keys)
    low, high = int(query.min()), int(query.max())
    place = torch.tensor([span[round((int(q) - low) / max(high - low, 1) * (len(span) - 1))] for q in query])
    return right.gather(1, place[:, None])[:, 0].float()


ENTRY = Role(
    definition="from a token looks at its counterpart: the sound of the word, the same atom on the other side of the arrow",
    source="OpenAI 2022 (Whisper's alignment_heads); Schwaller et al. 2021 (RXNMapper)",
    baseline="an even pace through both sequences; the same weight everywhere",
    hit=True,
    read=read,
    ask=asker,
    needs="aligned",
    cross=True,
)
