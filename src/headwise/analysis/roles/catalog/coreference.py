"""Looking from a pronoun at what it stands for."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.pronouns import Pronoun
from headwise.analysis.roles.role import Ask, Questions, Reading, Role
from headwise.analysis.roles.word_alignment import tokens_of


@dataclass(frozen=True, eq=False)
class Mentioned(Reading):
    """A text with a pronoun. Unit 0 is the pronoun, 1 the mention that it stands for, 2 the other."""

    pronoun: Pronoun


def read(model, corpus: Corpus) -> Iterator[Mentioned]:
    seen = [pronoun for pronoun in corpus.pronouns if corpus.ahead or max(pronoun.right[0], pronoun.wrong[0]) < pronoun.place[0]]
    for pronoun in corpus.some(seen):
        ids, units = tokens_of(model.tokenizer, pronoun.text, (pronoun.place, pronoun.right, pronoun.wrong))
        if all(units) and len(set().union(*units)) == sum(map(len, units)):
            yield Mentioned(torch.tensor([ids]), pronoun, units=units)


def asker(model, corpus: Corpus) -> Ask:
    return lambda text: [_question(text.pronoun)]


def _question(pronoun: Pronoun) -> Questions:
    nearest = _away(pronoun, pronoun.right) < _away(pronoun, pronoun.wrong)
    guesses = {"nearest mention": torch.tensor([float(nearest)]), "farthest mention": torch.tensor([float(not nearest)])}
    return Questions("pronoun → mention", torch.tensor([0]), torch.tensor([[False, True, False]]), torch.tensor([[False, True, True]]), guesses)


def _away(pronoun: Pronoun, mention: tuple[int, int]) -> int:
    return max(pronoun.place[0] - mention[1], mention[0] - pronoun.place[1])


ENTRY = Role(
    definition="from a pronoun looks at the mention that it stands for, more than at another that it could stand for",
    source="Clark et al. 2019, section 4.3; data: Webster et al. 2018 (GAP), Zhao et al. 2018 (WinoBias)",
    baseline="the nearest mention, or the farthest",
    hit=True,
    read=read,
    ask=asker,
    needs="pronouns",
)
