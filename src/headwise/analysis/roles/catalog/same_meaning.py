"""Looking at other words of like meaning."""

import torch
from torch import nn

from headwise.analysis.roles.baselines import uniform, visible
from headwise.analysis.roles.corpus import Corpus
from headwise.analysis.roles.role import Ask, Questions, Role
from headwise.analysis.roles.tokenized_text import Text, texts
from headwise.axes import Bool, Float, Tensor
from headwise.errors import ModelError

PAIRS, ALIKE = 20000, 3.0  # a pair of tokens is alike when its cosine lies so many standard deviations above that of random pairs


def asker(model, corpus: Corpus) -> Ask:
    table = _embeddings(model)
    bar = _bar(table, corpus.seed)
    return lambda text: [_question(text, table, bar, corpus.ahead)]


def _embeddings(model) -> Float[Tensor, "V M"]:
    found = getattr(model.hf, "get_input_embeddings", lambda: None)()
    if not isinstance(found, nn.Embedding):
        raise ModelError(f"meaning must be told by a table of embeddings, got none in {type(model.hf).__name__}. Leave this role out.")
    return found.weight.detach().float().cpu()


def _bar(table: Float[Tensor, "V M"], seed: int) -> float:
    chosen = torch.randint(len(table), (2, PAIRS), generator=torch.Generator().manual_seed(seed))
    cosines = torch.cosine_similarity(table[chosen[0]], table[chosen[1]], dim=1)
    return float(cosines.mean() + ALIKE * cosines.std())


def _question(text: Text, table: Float[Tensor, "V M"], bar: float, ahead: bool) -> Questions:
    """Asked of tokens of which another of like meaning and the same one are both in sight."""
    length = len(text.tokens)
    query = torch.arange(length)
    among = visible(query, length, ahead) & (query != query[:, None])
    vectors = nn.functional.normalize(table[text.ids.cpu()], dim=1)
    same = _same(text)
    right = (vectors @ vectors.t() > bar) & ~same & among
    rival = same & among
    asked = right.any(1) & rival.any(1)
    query, right, among, rival = query[asked], right[asked], among[asked], rival[asked]
    return Questions("a like word, not the same", query, right, among, {"uniform": uniform(right, among)}, rival)


def _same(text: Text) -> Bool[Tensor, "T T"]:
    """Tokens that are the same but for white space and capitals."""
    names = [token.strip().lower() for token in text.tokens]
    numbers = torch.tensor([names.index(name) for name in names])
    return numbers == numbers[:, None]


ENTRY = Role(
    definition="looks at tokens whose embeddings, in the model's own table, are close to this one's, more than at the same token elsewhere",
    source="the model's own input embeddings",
    baseline="the same weight for every token that it sees; what it gives to the same token",
    hit=False,
    read=texts,
    ask=asker,
)
