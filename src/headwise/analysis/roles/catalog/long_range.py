"""Looking far away."""

import torch

from headwise.analysis.roles.baselines import uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Role
from headwise.analysis.roles.tokenized_text import texts

AWAY = (32, 128)  # tokens


def asker(model, corpus: Corpus) -> Ask:
    return lambda text: [_beyond(away, len(text.tokens), corpus.ahead) for away in AWAY if len(text.tokens) > 2 * away]


def _beyond(away: int, length: int, ahead: bool) -> Questions:
    query = torch.arange(2 * away, length)
    key = torch.arange(length)
    among = visible(query, length, ahead) & (key > 0)  # what rests on the first token is a sink and reads nothing
    right = ((key - query[:, None]).abs() > away) & among
    return Questions(f"beyond {away} tokens", query, right, among, {"uniform": uniform(right, among)})


ENTRY = Role(
    definition="looks more than so many tokens away, the first token left out",
    source="Jiang et al. 2023 and others: mass by distance",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=texts,
    ask=asker,
)
