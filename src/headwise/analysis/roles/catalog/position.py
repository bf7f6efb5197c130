"""Looking at a fixed distance."""

import torch

from headwise.analysis.roles.baselines import uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Role
from headwise.analysis.roles.tokenized_text import texts

AWAY = (-4, -3, -2, -1, 1, 2, 3, 4)


def asker(model, corpus: Corpus) -> Ask:
    away = [offset for offset in AWAY if offset < 0 or corpus.ahead]
    return lambda text: [_at(offset, len(text.tokens), corpus.ahead) for offset in away]


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
    read=texts,
    ask=asker,
)
