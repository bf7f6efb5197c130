"""Looking at what stands between: special tokens behind the first, punctuation, line breaks."""

from collections.abc import Set

import torch

from headwise.analysis.roles.baselines import uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Role
from headwise.analysis.roles.tokenized_text import Text, texts

MARKS = frozenset(".,;:!?")


def asker(model, corpus: Corpus) -> Ask:
    special = set(getattr(model.tokenizer, "all_special_ids", ()))
    return lambda text: _questions(text, special, corpus.ahead)


def _questions(text: Text, special: Set[int], ahead: bool) -> list[Questions]:
    length = len(text.tokens)
    query = torch.arange(1, length)
    among = visible(query, length, ahead)
    kinds = {
        "special tokens": [place > 0 and token in special for place, token in enumerate(text.ids.tolist())],
        "punctuation": [place > 0 and token.strip() in MARKS for place, token in enumerate(text.tokens)],
    }
    return [_on(name, torch.tensor(marks), query, among) for name, marks in kinds.items() if any(marks)]


def _on(name: str, marks, query, among) -> Questions:
    right = marks & (torch.arange(len(marks)) != query[:, None])  # a mark that looks at itself is another role
    asked = (right & among).any(1)
    query, right, among = query[asked], right[asked], among[asked]
    return Questions(name, query, right, among, {"uniform": uniform(right, among)})


ENTRY = Role(
    definition="looks at separators: special tokens but for the first, or punctuation",
    source="Clark et al. 2019, sections 3.2 and 3.3",
    baseline="the same weight for every token that it sees",
    hit=False,
    read=texts,
    ask=asker,
)
