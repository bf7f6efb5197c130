"""`hw.similar`: which heads look alike, and which write alike.

    pattern   1 − JS(w, w') / log 2, of two heads' rows of weights, mean over rows: 1 when they look at the same, 0 when never at the same key
    write     tr(C·C') / (|C|·|C'|), C = Σ_tokens write·writeᵀ of a head: the overlap of the spaces along which two heads write, each
              direction counted by how much is written along it in these texts; 1 when they are the same, 0 when nothing is in common

References: Clark et al. 2019, section 5 (Jensen–Shannon between heads); Björck and Golub 1973 (angles between subspaces).
"""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headwise.analysis.ablation.eval_text import EvalText, Evaluator, check_texts, real_queries
from headwise.attention.weights import weights
from headwise.axes import Float, Int, Tensor
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError
from headwise.models.layout import w_o_by_head
from headwise.progress import ProgressCallback, no_progress, without_stage

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model

CRITERIA = ("pattern", "write")
ROWS = 64  # rows of a text that are compared, drawn at random
MIN_SIMILARITY = 0.5  # heads of one cluster are at least as similar as that, on average


@renamed_parameters(tell=("progress", without_stage), near="min_similarity", of="criterion")
def similar(
    model: "Model",
    texts: Any,
    criterion: str = "pattern",
    *,
    part: str | None = None,
    min_similarity: float = MIN_SIMILARITY,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> "xarray.Dataset":
    """How alike all pairs of heads are, and the groups that they fall into.

    Args:
        model: as `open_model` gives it.
        texts: a text, a list of texts or of anything that `model.run` takes.
        criterion: "pattern" for where heads attend, "write" for what they add to the residual stream.
        part: which attention of the model, where it has several.
        min_similarity: the least average similarity at which two clusters are merged (average linkage).
        seed: of the rows that are compared.
        progress: called as (stage, done, total) while it works.

    Returns:
        A Dataset: `similarity` by `one` and `other`, each a head named "layer.head", from 0 to 1; `cluster` by `one`, numbered by size from 0; the coordinates
        `layer` and `head` of `one`.

    Raises:
        ArgumentError: not "pattern" or "write", or no texts.
        WritesRefused: heads cannot be told apart.

    Example:
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> found = similar(open_model(GPT2LMHeadModel(GPT2Config(n_embd=12, n_head=3, n_layer=2, vocab_size=20))), torch.tensor([3, 1, 4, 1, 5]))
        >>> found.similarity.sel(one="0.1", other="0.1").item(), found.sizes["one"]
        (1.0, 6)
    """
    import xarray

    if criterion not in CRITERIA:
        raise ArgumentError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}. Correct the name.")
    found = check_texts(texts)
    opener = Evaluator(model, "cosine", part, seed)
    measure = _Patterns(seed) if criterion == "pattern" else _Writes()
    passage = None
    for number, text in enumerate(found):
        passage = opener.open(text)
        measure.see(passage)
        progress("comparing heads", number + 1, len(found))
    heads = [(layer, head) for layer, place in enumerate(passage.places) for head in range(place.heads)]
    matrix = measure.result()
    matrix.fill_diagonal_(1)
    names = [f"{layer}.{head}" for layer, head in heads]
    coords = {"one": names, "other": names, "layer": ("one", [layer for layer, _ in heads]), "head": ("one", [head for _, head in heads])}
    variables = {"similarity": (("one", "other"), matrix.numpy()), "cluster": ("one", clusters(matrix, min_similarity).numpy())}
    attrs = {"model": model.name, "part": passage.places[0].part, "criterion": criterion, "min_similarity": min_similarity, "texts": len(found)}
    return xarray.Dataset(variables, coords, {**attrs, "of": criterion, "near": min_similarity})  # the last two are the names of earlier releases


class _Patterns:
    """Jensen–Shannon divergence between rows of weights, gathered text by text."""

    def __init__(self, seed: int) -> None:
        self.sum: Tensor | None = None
        self.rows = 0
        self.generator = torch.Generator().manual_seed(seed)

    def see(self, passage: EvalText) -> None:
        every = _patterns(passage, self.generator)
        found = _jensen_shannon(every)
        self.sum = found if self.sum is None else self.sum + found
        self.rows += every.shape[1]

    def result(self) -> Float[Tensor, "N N"]:
        return (1 - self.sum / self.rows / log(2)).clamp(0, 1)


def _patterns(passage: EvalText, generator: torch.Generator) -> Float[Tensor, "N R S"]:
    """Some rows of every head's weights, of the first batch row; each with the sink's share as one more key."""
    rows: Tensor | None = None
    found = []

    def listen(heard: Any) -> None:
        nonlocal rows
        asked, lse = heard.request, heard.attended.lse
        length = asked.query.shape[2]
        if rows is None:
            real = real_queries(passage, next(place for place in passage.places if place.index == heard.index))[0].nonzero()[:, 0]
            rows = real[torch.randperm(len(real), generator=generator)[:ROWS]].sort().values
        every = weights(asked.query[:1], asked.key[:1], lse[:1], asked.call, slice(0, length), slice(0, asked.key.shape[2]))[0, :, rows].double()
        found.append(torch.cat([every, (1 - every.sum(-1, keepdim=True)).clamp(min=0)], -1))

    passage.forward.session.rerun(listen, [place.index for place in passage.places])
    return torch.cat(found).cpu()


def _jensen_shannon(rows: Float[Tensor, "N R S"]) -> Float[Tensor, "N N"]:
    """Σ over rows of JS(w_a, w_b) = H((w_a + w_b) / 2) − (H(w_a) + H(w_b)) / 2, in nats."""
    own = _entropy(rows).sum(1)
    mixed = torch.stack([_entropy((one + rows) / 2).sum(1) for one in rows])
    return mixed - (own[:, None] + own[None, :]) / 2


def _entropy(rows: Float[Tensor, "N R S"]) -> Float[Tensor, "N R"]:
    return -torch.xlogy(rows, rows).sum(-1)


class _Writes:
    """The spaces along which heads write: the second moments of their writes, gathered text by text."""

    def __init__(self) -> None:
        self.moments: list[Tensor] = []
        self.blocks: list[Tensor] = []

    def see(self, passage: EvalText) -> None:
        session = passage.forward.session
        reads = [passage.forward.cache.wo_inputs[place.index][real_queries(passage, place)].double() for place in passage.places]
        moments = [torch.einsum("nhe,nhf->hef", read, read) for read in reads]
        modules = [session.module(session.layout.sites[place.index].output.module) for place in passage.places]
        self.blocks = [w_o_by_head(module, place.heads).double() for module, place in zip(modules, passage.places, strict=True)]
        self.moments = [old + new for old, new in zip(self.moments, moments, strict=True)] if self.moments else moments

    def result(self) -> Float[Tensor, "N N"]:
        """tr(C_a C_b) / (|C_a| |C_b|), C the second moments of what a head writes: 1 for the same directions in the same measure, 0 for none in common."""
        every = [pair for moments, blocks in zip(self.moments, self.blocks, strict=True) for pair in zip(moments, blocks, strict=True)]
        roots = [_root(moment) @ block for moment, block in every]
        count = len(roots)
        products = torch.zeros(count, count, dtype=torch.float64)
        for a in range(count):
            for b in range(a, count):
                products[a, b] = products[b, a] = (roots[a] @ roots[b].t()).square().sum()
        size = products.diagonal().sqrt().clamp(min=1e-300)
        return (products / (size * size[:, None])).clamp(0, 1).cpu()


def _root(moment: Float[Tensor, "E E"]) -> Float[Tensor, "E E"]:
    """R with RᵀR = moment."""
    values, vectors = torch.linalg.eigh(moment)
    return values.clamp(min=0).sqrt()[:, None] * vectors.t()


def clusters(similarity: Float[Tensor, "N N"], min_similarity: float) -> Int[Tensor, " N"]:
    """Clusters of heads by average linkage, numbered by size from 0: the two clusters most similar on average are merged until none reach `min_similarity`.

    Example:
        >>> clusters(torch.tensor([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]]), 0.5).tolist()
        [0, 1, 0]
    """
    from scipy.cluster.hierarchy import average, fcluster

    count = len(similarity)
    if count < 2:
        return torch.zeros(count, dtype=torch.int64)
    above = torch.triu_indices(count, count, 1)
    distances = (1 - similarity.double())[above[0], above[1]].numpy()  # condensed, as scipy takes them
    labels = fcluster(average(distances), 1 - min_similarity, criterion="distance")
    return _numbered([np.flatnonzero(labels == label).tolist() for label in np.unique(labels)], count)


def _numbered(groups: Sequence[Sequence[int]], count: int) -> Int[Tensor, " N"]:
    found = torch.zeros(count, dtype=torch.int64)
    for number, group in enumerate(sorted(groups, key=lambda group: (-len(group), min(group)))):
        found[list(group)] = number
    return found
