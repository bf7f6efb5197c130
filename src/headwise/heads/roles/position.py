"""Looking at a fixed distance."""

from collections.abc import Iterator

import torch

from headwise.heads.guesses import uniform, visible
from headwise.heads.material import Material
from headwise.heads.reading import texts
from headwise.heads.role import Questions, Reading, Role

AWAY = (-4, -3, -2, -1, 1, 2, 3, 4)


def read(model, material: Material) -> Iterator[Reading]:
    for text in texts(model, material):
        length = len(text.tokens)
        yield Reading(text.given, [_at(offset, length, material.ahead) for offset in AWAY if offset < 0 or material.ahead])


def _at(offset: int, length: int, ahead: bool) -> Questions:
    query = torch.arange(max(0, -offset), length - max(0, offset))
    among = visible(query, length, ahead)
    right = torch.arange(length) == (query + offset)[:, None]
    return Questions(f"{offset:+d}", query, right, among, {"uniform": uniform(right, among)})


ENTRY = Role(
    definition="looks at the token that stands a fixed number of tokens before or behind",
    source="Vig and Belinkov 2019; Clark et al. 2019, section 3.1; Voita et al. 2019",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=read,
)
