"""Looking along the lines of grammar, in both directions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from headwise.analysis.roles.baselines import offsets, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Reading, Role
from headwise.analysis.roles.sentences import Sentence
from headwise.analysis.roles.word_alignment import tokens_of

WORDS = range(4, 61)  # of a sentence that is read


@dataclass(frozen=True, eq=False)
class Parsed(Reading):
    """A sentence with its grammar; its units are its words."""

    units: Sequence[tuple[int, ...]] = field(kw_only=True)
    sentence: Sentence


def read(model, corpus: Corpus) -> Iterator[Parsed]:
    for sentence in corpus.some([sentence for sentence in corpus.sentences if len(sentence.spans) in WORDS]):
        ids, units = tokens_of(model.tokenizer, sentence.text, sentence.spans)
        yield Parsed(torch.tensor([ids]), sentence, units=units)


def asker(model, corpus: Corpus) -> Ask:
    return lambda text: list(_questions(text.sentence, text.units, corpus))


def _questions(sentence: Sentence, units: Sequence[tuple[int, ...]], corpus: Corpus) -> Iterator[Questions]:
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        if head < 0 or relation == "punct" or (corpus.relations and relation not in corpus.relations):
            continue
        if not units[word] or not units[head] or set(units[word]) & set(units[head]):
            continue  # a word that the tokenizer dropped, or two in one token
        pairs[f"{relation} → head"].append((word, head))
        pairs[f"head → {relation}"].append((head, word))
    for task, found in pairs.items():
        seen = [(query, key) for query, key in found if key < query or corpus.ahead]
        if seen:
            yield _of(task, seen, len(units), corpus.ahead)


def _of(task: str, pairs: list[tuple[int, int]], words: int, ahead: bool) -> Questions:
    """A head may have several dependents of a kind: each is right."""
    query = torch.tensor(sorted({asking for asking, _ in pairs}))
    right = torch.zeros(len(query), words, dtype=torch.bool)
    rows = {int(asking): row for row, asking in enumerate(query)}
    for asking, asked in pairs:
        right[rows[asking], asked] = True
    among = visible(query, words, ahead) & (torch.arange(words) != query[:, None])
    return Questions(task, query, right, among, offsets(query, right))


ENTRY = Role(
    definition="most of all looks at the word that this one hangs on by a relation of grammar, or that hangs on it",
    source="Clark et al. 2019, section 4.2; Voita et al. 2019; relations: universaldependencies.org",
    baseline="the best fixed offset in words",
    hit=True,
    read=read,
    ask=asker,
    needs="sentences",
)
