"""Two circuits of one head in two checkpoints: how large, how alike; without ever forming the M × M matrices that they are.

QK = W_Q[h]ᵀ · W_K[g]    what the head looks for        OV = W_V[g]ᵀ · W_O[h]    what it writes for what it reads
<A₁ᵀB₁, A₂ᵀB₂> = Σ (A₁A₂ᵀ) ∘ (B₁B₂ᵀ)                     inner products, a head's width squared
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headwise.analysis.checkpoints.parameter_source import Weights, wide
from headwise.axes import Float, Tensor
from headwise.errors import ModelError
from headwise.interventions.head_parameters import HeadMap
from headwise.models.parameters.head_blocks import HeadBlock
from headwise.models.parameters.qkv_locator import HeadParameters, ProjectedHeads
from headwise.models.runs.places import Place

Matrices = Float[Tensor, "_ _ _"]  # of all heads of a layer: rows of a projection by head; a bias is one more column


@dataclass(frozen=True, eq=False)
class Layer:
    """The matrices of one attention call, by head; None where they cannot be told apart. C is M, and one more with a bias.

    Attributes:
        sizes: what queries' and keys' sizes are after what follows the projections, by query head; where a norm follows, that is all that counts.
        normalised: a norm follows W_Q or W_K.
        refusal: why some are None.
    """

    query: Float[Tensor, "H D C"] | None
    key: Float[Tensor, "G D M"] | None
    value: Float[Tensor, "G E C"] | None
    output: Float[Tensor, "H E M"] | None
    sizes: Float[Tensor, " H"] | None
    normalised: bool
    refusal: str | None


def layer_of(head_map: HeadMap, place: Place, weights: Weights) -> Layer:
    """Read what one layer's heads are made of."""
    found = head_map.projections[place.index]
    why = next((f"{name}: {side.refusal}" for name, side in _sides(found) if side.refusal is not None), None)
    site = head_map.site(place)
    output = None
    if site.output is None:
        why = f"output: {site.refusal}"
    else:
        output = _by_head([head_map.w_o(place, head) for head in range(place.heads)], head_map, weights)
    query, key, value = (_projected(side, head_map, weights, bias=name != "key") for name, side in _sides(found))
    sizes = _sizes(found.query, found.key, place.heads)
    normalised = not (found.query.linear and found.key.linear)
    return Layer(query, key, value, output, sizes, normalised, why)


def spread(of_keys: Float[Tensor, "G ..."], heads: int) -> Float[Tensor, "H ..."]:
    """A key head's numbers for each query head that reads it."""
    return of_keys.repeat_interleave(heads // of_keys.shape[0], 0)


def products(a: Float[Tensor, "H D C"], b: Float[Tensor, "H D M"], c: Float[Tensor, "H D C"], d: Float[Tensor, "H D M"]) -> Float[Tensor, " H"]:
    """<Aᵀ·B, Cᵀ·D> of each head."""
    return ((a @ c.transpose(1, 2)) * (b @ d.transpose(1, 2))).sum((1, 2))


def likeness(after: Matrices, before: Matrices) -> Float[Tensor, "H H"]:
    """The cosine of each head's rows afterwards with every head's rows before."""
    one, two = (x.flatten(1) / x.flatten(1).norm(dim=1, keepdim=True).clamp(min=1e-30) for x in (after, before))
    return one @ two.t()


def _sides(found: object) -> tuple[tuple[str, ProjectedHeads], ...]:
    return tuple((name, getattr(found, name)) for name in ("query", "key", "value"))


def _projected(side: ProjectedHeads, head_map: HeadMap, weights: Weights, bias: bool) -> Matrices | None:
    """The rows of each head. A bias of the keys is left out: it adds the same to all scores of a row."""
    if side.refusal is not None:
        return None
    return torch.stack([_rows(own, head_map, weights, bias) for own in side.heads])


def _rows(own: HeadParameters, head_map: HeadMap, weights: Weights, bias: bool) -> Float[Tensor, "D M"]:
    if len(own.weights) != 1:
        raise ModelError(f"a head's rows must lie in one matrix to be compared, got {', '.join(x.parameter for x in own.weights)}. Merge the adapter first.")
    rows = _read(own.weights[0], head_map, weights)
    if not bias or not own.biases:
        return rows
    return torch.cat([rows, *(_read(block, head_map, weights)[:, None] for block in own.biases)], 1)


def _by_head(blocks: list[HeadBlock], head_map: HeadMap, weights: Weights) -> Matrices:
    return torch.stack([_read(block, head_map, weights) for block in blocks])


def _read(block: HeadBlock, head_map: HeadMap, weights: Weights) -> Tensor:
    """The head's part, its own features first."""
    shape = tuple(head_map.hf.get_parameter(block.parameter).shape)
    whole = weights.get(block.parameter, shape)
    if whole is None:
        raise ModelError(f"both checkpoints must have every parameter of attention, got none called {block.parameter} of {list(shape)} in one of them.")
    return wide(block.of(whole)).movedim(block.axis, 0)


def _sizes(query: ProjectedHeads, key: ProjectedHeads, heads: int) -> Float[Tensor, " H"] | None:
    if not query.sizes or not key.sizes or heads % len(key.sizes) or len(query.sizes) != heads:
        return None
    return torch.tensor(query.sizes, dtype=torch.float64) * spread(torch.tensor(key.sizes, dtype=torch.float64), heads)


Read = Callable[[Place], Layer]
