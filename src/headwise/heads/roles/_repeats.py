"""Random tokens, a part of them twice, at distances that differ from text to text."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from headwise.axes import Int, Tensor
from headwise.heads.guesses import offsets, uniform, visible
from headwise.heads.material import Material
from headwise.heads.reading import drawn, frame
from headwise.heads.role import Questions, Reading

TEXTS, SHORTEST, LONGEST, BETWEEN = 48, 8, 32, 16


@dataclass(frozen=True, eq=False)
class Repeat:
    """A text, and where each token of the second copy stands with its earlier self."""

    ids: Int[Tensor, "1 T"]
    again: Int[Tensor, " n"]
    before: Int[Tensor, " n"]


def repeats(model, material: Material) -> Iterator[Repeat]:
    """Texts in which the copy's length and place are drawn anew: with a fixed length a head that looks a fixed way back would be right too."""
    random, around = material.random(), frame(model)
    for _ in range(min(TEXTS, material.limit)):
        length, lead, gap = random.randint(SHORTEST, LONGEST), random.randint(1, BETWEEN), random.randint(0, BETWEEN)
        ids = drawn(random, around, length + lead + gap)
        length = min(length, len(ids) - lead - gap)
        if length < 2:
            continue
        part = ids[lead : lead + length]
        start = len(around.before)
        before = torch.arange(start + lead, start + lead + length)
        yield Repeat(around.around([*ids, *part]), before + length + gap, before)


def asked(model, material: Material, task: str, behind: int) -> Iterator[Reading]:
    """For each token of the copy: where it should look, so many tokens behind its earlier self."""
    for repeat in repeats(model, material):
        kept = slice(1, len(repeat.again) - behind)
        query, length = repeat.again[kept], repeat.ids.shape[1]
        right = torch.arange(length) == (repeat.before[kept] + behind)[:, None]
        among = visible(query, length, material.ahead)
        guesses = {**offsets(query, right, range(-(2 * LONGEST + BETWEEN), 0)), "uniform": uniform(right, among)}
        yield Reading(repeat.ids, [Questions(task, query, right, among, guesses)])
