"""Parking attention on the first token."""

import torch

from headwise.analysis.roles.baselines import uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Role
from headwise.analysis.roles.tokenized_text import texts


def asker(model, corpus: Corpus) -> Ask:
    return lambda text: [_question(len(text.tokens), corpus.ahead)]


def _question(length: int, ahead: bool) -> Questions:
    query = torch.arange(1, length)
    among = visible(query, length, ahead)
    right = (torch.arange(length) == 0).expand(length - 1, -1)
    return Questions("sink", query, right, among, {"uniform": uniform(right, among)})


ENTRY = Role(
    definition="rests on the first token, whatever it is",
    source="Xiao et al. 2023, attention sinks",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=texts,
    ask=asker,
)
