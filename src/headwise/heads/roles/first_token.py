"""Parking attention on the first token."""

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
        right = (torch.arange(length) == 0).expand(length - 1, -1)
        yield Reading(text.given, [Questions("sink", query, right, among, {"uniform": uniform(right, among)})])


ENTRY = Role(
    definition="rests on the first token, whatever it is",
    source="Xiao et al. 2023, attention sinks",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=read,
)
