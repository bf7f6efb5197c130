"""Statistics of the heads' writes, summed over the tokens of each text; shared by several claims and computed once per study.

w_h = z_h · W_O[h]        out = Σ_h w_h + bias        z_h: head h's output before W_O
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

from headwise.analysis.writes import LayerWrites, layer_writes
from headwise.axes import Float, Tensor
from headwise.models.layout import w_o_by_head

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.experiments.study import Study


@dataclass(frozen=True, eq=False)
class Matrix:
    """One layer's W_O as a linear map from the concatenated z of all heads to the layer's output, decomposed.

    Attributes:
        singular: its singular values, the largest first.
        rank: the number of singular values above σ_1 · max(H·E, M) · ε, with ε of the weights' dtype, as in NumPy.
        inverse: the pseudo-inverse of that rank.
    """

    singular: Float[Tensor, " n"]
    rank: int
    inverse: Float[Tensor, "M HE"]
    dtype: torch.dtype

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the normalised squared singular values."""
        energy = self.singular.square() / self.singular.square().sum()
        return float((-torch.xlogy(energy, energy).sum()).exp())


@dataclass(frozen=True, eq=False)
class WriteSummary:
    """Sums over the tokens of each text, by layer and head; NaN where a layer lacks the head.

    Attributes:
        tokens: of each text.
        share: Σ_t |w_h| / Σ_g |w_g|: the head's share of its layer's write norms.
        z: Σ_t |z_h|².
        lost: Σ_t |z_h − ẑ_h|², ẑ reconstructed from the layer's output, at the precision of the weights' dtype.
        write: Σ_t |w_h|².
        added: Σ_t |Σ_g w_g|², by layer.
        removed: Σ_t |out[slice h]|²: what zeroing the h-th of H slices of the output removes; NaN if H · E is not M.
        own: Σ_t w_h[slice h] · out[slice h]: how much of `removed` is head h's.
        alike: Σ_t of the cosine between what that removes and the head's write.
        matrices: W_O of each layer.
    """

    tokens: Float[Tensor, " n"]
    share: Float[Tensor, "n L H"]
    z: Float[Tensor, "n L H"]
    lost: Float[Tensor, "n L H"]
    write: Float[Tensor, "n L H"]
    added: Float[Tensor, "n L"]
    removed: Float[Tensor, "n L H"]
    own: Float[Tensor, "n L H"]
    alike: Float[Tensor, "n L H"]
    matrices: tuple[Matrix, ...]


_KNOWN: "WeakKeyDictionary[Study, WriteSummary]" = WeakKeyDictionary()


def write_summary(study: "Study") -> WriteSummary:
    """Summarise the heads' writes on the texts of a study, in about two forward passes per text; computed once.

    Raises:
        WritesRefused: writes cannot be attributed to single heads.
    """
    if study not in _KNOWN:
        _KNOWN[study] = _measured(study)
    return _KNOWN[study]


def _measured(study: "Study") -> WriteSummary:
    matrices: dict[str, Matrix] = {}
    rows, tokens = [], []
    for number in range(len(study.texts)):
        passage = study.passage(number)
        layers = layer_writes(passage)
        mine = [_matrix(passage, layer, matrices) for layer in range(len(layers))]
        rows.append([_sums(written, matrix) for written, matrix in zip(layers, mine, strict=True)])
        tokens.append(float(layers[0].total.shape[0] * layers[0].total.shape[1]))
        study.progress("writes of heads", number + 1, len(study.texts))
    names = [field.name for field in fields(WriteSummary) if field.name not in ("tokens", "matrices")]
    return WriteSummary(torch.tensor(tokens), **{name: _stacked([row[name] for row in rows_of] for rows_of in rows) for name in names}, matrices=tuple(mine))


def _matrix(passage: "EvalText", layer: int, known: dict[str, Matrix]) -> Matrix:
    """W_O of a layer; a module shared by several layers is decomposed once."""
    session = passage.forward.session
    output = session.layout.sites[passage.places[layer].index].output
    if output.module not in known:
        module = session.module(output.module)
        known[output.module] = matrix(w_o_by_head(module, passage.places[layer].heads))
    return known[output.module]


def matrix(blocks: Float[Tensor, "H E M"]) -> Matrix:
    """The singular value decomposition of W_O, in float64."""
    whole = blocks.double().flatten(0, 1)
    left, singular, right = torch.linalg.svd(whole, full_matrices=False)
    floor = singular[0] * max(whole.shape) * torch.finfo(blocks.dtype).eps
    rank = int((singular > floor).sum())
    inverse = right[:rank].t() @ (left[:, :rank] / singular[:rank]).t()
    return Matrix(singular, rank, inverse, blocks.dtype)


def _sums(layer: LayerWrites, matrix: Matrix) -> dict[str, Tensor]:
    """The numbers of one layer of one text."""
    writes, out, read = (x.double().flatten(0, 1) for x in (layer.writes, layer.out, layer.read))  # (B T) H M, (B T) M, (B T) H E
    total = layer.total.to(matrix.dtype).double().flatten(0, 1)
    back = (total @ matrix.inverse).unflatten(-1, read.shape[1:])
    length = torch.linalg.vector_norm(writes, dim=-1)
    found = {
        "share": (length / length.sum(-1, keepdim=True)).sum(0),
        "z": read.square().sum((0, 2)),
        "lost": (read - back).square().sum((0, 2)),
        "write": length.square().sum(0),
        "added": total.square().sum(),
    }
    return found | _sliced(writes, out, read)


def _sliced(writes: Float[Tensor, "n H M"], out: Float[Tensor, "n M"], read: Float[Tensor, "n H E"]) -> dict[str, Tensor]:
    """The energy of the h-th of H slices of the output, and head h's share of it."""
    heads, width = read.shape[1:]
    if heads * width != out.shape[1]:
        return {name: torch.full((heads,), torch.nan, dtype=torch.float64) for name in ("removed", "own", "alike")}
    slices = out.unflatten(-1, (heads, width))
    mine = torch.diagonal(writes.unflatten(-1, (heads, width)), dim1=1, dim2=2).transpose(1, 2)  # head h's part of slice h
    both = (mine * slices).sum(-1)
    value_weighted = torch.linalg.vector_norm(slices, dim=-1) * torch.linalg.vector_norm(writes, dim=-1)
    return {"removed": slices.square().sum((0, 2)), "own": both.sum(0), "alike": (both / value_weighted.clamp(min=1e-300)).sum(0)}


def _stacked(texts: Iterable[Iterable[Tensor]]) -> Tensor:
    """One tensor, NaN where a layer lacks heads."""
    rows = [list(text) for text in texts]
    most = max(x.numel() for text in rows for x in text)
    if all(x.dim() == 0 for text in rows for x in text):
        return torch.stack([torch.stack(text) for text in rows])
    return torch.stack([torch.stack([torch.cat([x, x.new_full((most - len(x),), torch.nan)]) for x in text]) for text in rows])
