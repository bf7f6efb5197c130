"""Looking at oneself."""

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
    right = torch.arange(length) == query[:, None]
    return Questions("itself", query, right, among, {"uniform": uniform(right, among)})


ENTRY = Role(
    definition="looks at the token itself",
    source="Kovaleva et al. 2019, the diagonal pattern",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=texts,
    ask=asker,
)
