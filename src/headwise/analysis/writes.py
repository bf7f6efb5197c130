"""What each head adds through its own block of W_O, exactly: how long it is, where it points, and how much heads work against one another.

    writes_h = read_h · W_O[h]          Σ_h writes_h + bias = what W_O's module gives: compared, and an error where it does not hold

References: Elhage et al. 2021, "Attention heads are independent and additive"; Kobayashi et al. 2020 on the length of what is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import einsum

from headwise.analysis.ablation.eval_text import EvalText, Evaluator
from headwise.axes import Float, Tensor
from headwise.errors import ModelError, WritesRefused
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.layout import w_o_bias, w_o_by_head
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model

SLACK = 256  # units of the last place, times the root of the numbers added up: what a sum in another order may differ by


@dataclass(frozen=True, eq=False)
class LayerWrites:
    """What the heads of one layer add.

    Attributes:
        writes: each head's part.
        total: their sum.
        out: the sum with the bias.
        stream: the residual stream that it is added to; None where the layer's block is not given one of this width.
        blocks: of W_O.
    """

    writes: Float[Tensor, "B T H M"]
    total: Float[Tensor, "B T M"]
    out: Float[Tensor, "B T M"]
    stream: Float[Tensor, "B T M"] | None
    blocks: Float[Tensor, "H E M"]
    read: Float[Tensor, "B T H E"]


def writes(model: "Model", what: Any, part: str | None = None) -> "xarray.Dataset":
    """What every head adds, token by token.

    Returns:
        A Dataset about the first text. By layer, head and query: `norm`; `share` of the sum, along it (they add up to 1); `cosine` with the layer's output;
        `stream_cosine` with the residual stream that it is added to; `kept`, what its block lets through of what the head says: |z·W_O[h]|² / (|z|²·s²), s the
        block's largest singular value. By layer and query: `agreement`, |Σ writes| / Σ |writes|: 1 when all pull one way, 0 when they cancel; `overlap`, the
        mean cosine of two heads' writes; `democracy`, entropy of the heads' shares of the length over log H: 1 when all write alike, 0 when one writes all.
        By layer and head: `effective_rank`, exp of the entropy of the squared singular values' shares; `singular_values`.

    Raises:
        WritesRefused: heads cannot be told apart.
        ModelError: the parts do not add up to what the module gave.

    Example:
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> found = writes(open_model(GPT2LMHeadModel(GPT2Config(n_embd=12, n_head=3, n_layer=2, vocab_size=20))), torch.tensor([3, 1, 4, 1, 5]))
        >>> found.norm.dims, bool((abs(found.share.sum("head") - 1) < 1e-4).all())
        (('layer', 'head', 'query'), True)
    """
    import xarray

    passage = Evaluator(model, "cosine", part).open(what)
    layers = [_measures(layer) for layer in layer_writes(passage)]
    dims = {"norm": 3, "share": 3, "cosine": 3, "stream_cosine": 3, "kept": 3, "agreement": 2, "overlap": 2, "democracy": 2, "effective_rank": 1}
    by = {3: ("layer", "head", "query"), 2: ("layer", "query"), 1: ("layer", "head")}
    variables = {name: (by[count], _stacked([layer[name] for layer in layers])) for name, count in dims.items()}
    variables["singular_values"] = (("layer", "head", "component"), _stacked([layer["singular_values"] for layer in layers]))
    heads = max(place.heads for place in passage.places)
    coords = {"layer": range(len(layers)), "head": range(heads), "layer_name": ("layer", [place.module for place in passage.places])}
    return xarray.Dataset(variables, coords, {"model": model.name, "part": passage.places[0].part})


def layer_writes(passage: EvalText) -> list[LayerWrites]:
    """What the heads of each layer add; compared with what came out of W_O's module in the pass.

    Raises:
        ModelError: it does not add up to that.
    """
    given: dict[int, AttentionRecord] = {}
    passage.forward.session.rerun(lambda heard: given.__setitem__(heard.index, heard), [place.index for place in passage.places])
    return [_written(passage, place, given[place.index]) for place in passage.places]


def _written(passage: EvalText, place: Place, heard: AttentionRecord) -> LayerWrites:
    session, cache = passage.forward.session, passage.forward.cache
    module = session.module(session.layout.sites[place.index].output.module)
    read = cache.wo_inputs[place.index].float()
    blocks = w_o_by_head(module, place.heads).float()
    found = einsum("bthe,hem->bthm", read, blocks)
    total = found.sum(2)
    bias = w_o_bias(module)
    out = total if bias is None else total + bias.float()
    check_sum(place, out, heard.w_o_output, found)
    step = cache.blocks[cache.resume_points[place.index][0]] if cache.blocks else None
    stream = step.input.float() if step is not None and step.input is not None and step.input.shape == out.shape else None
    return LayerWrites(found, total, out, stream, blocks, read)


def check_sum(place: Place, out: Float[Tensor, "B T M"], given: Tensor | None, parts: Float[Tensor, "B T H M"]) -> None:
    """Whether heads and bias add up to what the module gave, within what rounding allows.

    Raises:
        ModelError: they do not.
    """
    if given is None:
        raise WritesRefused(f"writes of {place.module} cannot be attributed to heads: what its W_O gave was not seen.")
    size = parts.norm(dim=-1).sum(-1).clamp(min=float(given.float().norm(dim=-1).max()))
    allowed = SLACK * torch.finfo(given.dtype).eps * size
    apart = (out - given.float()).norm(dim=-1)
    if not bool((apart <= allowed).all()):
        raise ModelError(f"heads of {place.module} must add up to what its W_O gives, got a difference of {float(apart.max()):.3g}. Report this model.")


def _measures(layer: LayerWrites) -> Mapping[str, Tensor]:
    """The numbers of one layer, of the first batch row."""
    found, total = layer.writes[0].transpose(0, 1), layer.total[0]  # H T M
    norm = torch.linalg.vector_norm(found, dim=-1)
    norm_shares = norm / norm.sum(0)
    singular = torch.linalg.svdvals(layer.blocks)
    energy = singular.square() / singular.square().sum(-1, keepdim=True)
    said = layer.read[0].square().sum(-1).t() * singular[:, :1].square()
    heads = len(found)
    unit = torch.nn.functional.normalize(found, dim=-1)
    pairs = (unit.sum(0).square().sum(-1) - heads) / max(heads * (heads - 1), 1)
    return {
        "norm": norm,
        "share": einsum("htm,tm->ht", found, total) / total.square().sum(-1),
        "cosine": _cosine(found, layer.out[0]),
        "stream_cosine": torch.full_like(norm, torch.nan) if layer.stream is None else _cosine(found, layer.stream[0]),
        "kept": norm.square() / said,
        "agreement": torch.linalg.vector_norm(total, dim=-1) / norm.sum(0),
        "overlap": pairs,
        "democracy": -torch.xlogy(norm_shares, norm_shares).sum(0) / max(float(np.log(heads)), 1e-12),
        "effective_rank": (-torch.xlogy(energy, energy).sum(-1)).exp(),
        "singular_values": singular,
    }


def _cosine(found: Float[Tensor, "H T M"], other: Float[Tensor, "T M"]) -> Float[Tensor, "H T"]:
    return torch.cosine_similarity(found, other[None], dim=-1)


def _stacked(layers: Sequence[Tensor]) -> np.ndarray:
    """One array, NaN where a layer lacks heads."""
    shape = tuple(max(sizes) for sizes in zip(*(x.shape for x in layers), strict=True))
    found = np.full((len(layers), *shape), np.nan)
    for place, x in enumerate(layers):
        found[(place, *(slice(0, size) for size in x.shape))] = x.cpu().double().numpy()
    return found


def norm_weighted(passage: EvalText, place: Place) -> Float[Tensor, "B H T S"]:
    """Weights times the length of what is carried: |w_ij · v_j · W_O[h]|.

    A weight on a key whose value W_O throws away carries nothing.

    Raises:
        WritesRefused: something acts on what heads say before W_O reads it.

    References:
        Kobayashi et al. 2020, equation 4, with the value's bias in v.
    """
    session = passage.forward.session
    output = session.layout.sites[place.index].output
    if output is None or not output.exact:
        raise WritesRefused(f"values of {place.module} must reach W_O as they are, got something in between (a gate?). Its weights cannot be weighted so.")
    given: dict[int, AttentionRecord] = {}
    session.rerun(lambda heard: given.__setitem__(heard.index, heard), [place.index])
    return value_weighted(given[place.index], w_o_by_head(session.module(output.module), place.heads))


def value_weighted(heard: AttentionRecord, blocks: Float[Tensor, "H E M"]) -> Float[Tensor, "B H T S"]:
    """The same from a call that was heard and its blocks of W_O."""
    from headwise.attention.weights import weights

    asked = heard.request
    group = blocks.shape[0] // asked.value.shape[1]
    carried = einsum("bhse,hem->bhsm", asked.value.float().repeat_interleave(group, 1), blocks.float())
    every = weights(asked.query, asked.key, heard.attended.lse, asked.call, slice(0, asked.query.shape[2]), slice(0, asked.key.shape[2]))
    return every * torch.linalg.vector_norm(carried, dim=-1)[:, :, None]
