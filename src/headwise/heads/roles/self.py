"""Looking at oneself."""

from collections.abc import Iterator

import torch

from headwise.heads.guesses import uniform, visible
from headwise.heads.material import Material
from headwise.heads.reading import texts
from headwise.heads.role import Questions, Reading, Role


def read(model, material: Material) -> Iterator[Reading]:
    for text in texts(model, material):
        length = len(text.tokens)
        query = torch.arange(1, length)
        among = visible(query, length, material.ahead)
        right = torch.arange(length) == query[:, None]
        yield Reading(text.given, [Questions("itself", query, right, among, {"uniform": uniform(right, among)})])


ENTRY = Role(
    definition="looks at the token itself",
    source="Kovaleva et al. 2019, the diagonal pattern",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=read,
)
