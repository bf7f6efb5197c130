"""Where a module keeps its maps: found by the names that the field gives them, or given."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.adapters.pad_to_size import Sizes
from headwise.errors import ArgumentError

# The last part of a submodule's name, by what it makes.
NAMES: Mapping[str, tuple[str, ...]] = {
    "q": ("q_proj", "to_q", "w_q", "wq", "q_lin", "q", "query", "q_linear", "linear_q", "query_proj", "queries", "query_key", "w_query", "fc_q", "proj_q"),
    "k": ("k_proj", "to_k", "w_k", "wk", "k_lin", "k", "key", "k_linear", "linear_k", "key_proj", "keys", "w_key", "fc_k", "proj_k"),
    "v": ("v_proj", "to_v", "w_v", "wv", "v_lin", "v", "value", "v_linear", "linear_v", "value_proj", "values", "w_value", "fc_v", "proj_v"),
    "kv": ("kv_proj", "to_kv", "w_kv", "kv", "wkv"),
    "qkv": ("qkv", "qkv_proj", "c_attn", "wqkv", "in_proj", "to_qkv", "query_key_value", "w_qkv", "attn_qkv", "proj_qkv"),
    "out": ("o_proj", "out_proj", "to_out", "w_o", "wo", "out", "out_lin", "c_proj", "proj", "dense", "o", "linear_o", "fc_o", "output", "proj_out", "proj_o"),
}
LAST_OF_SEVERAL = ("to_out.0", "output.dense", "out.0")  # an output map in a Sequential, before its dropout
HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads", "h", "nheads", "head_count")
KEY_HEADS = ("num_kv_heads", "num_key_value_heads", "n_kv_heads", "kv_heads", "n_kv_head", "num_key_heads")
PACKINGS = ("q k v", "by head", "by group")


@dataclass(frozen=True)
class Map:
    """One linear map of a module.

    Attributes:
        name: of the submodule.
        rows_are_inputs: the weight is [in, out], as a Conv1D has it; otherwise [out, in], as a Linear has it.
        biased: it adds a bias.
    """

    name: str
    rows_are_inputs: bool
    biased: bool

    def parameters(self, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
        """Its parameters for a map [in, out] and a bias; zeros where the module has one and the layer has none."""
        found = {f"{self.name}.weight": weight if self.rows_are_inputs else weight.T}
        if self.biased:
            found[f"{self.name}.bias"] = weight.new_zeros(weight.shape[1]) if bias is None else bias
        return found


@dataclass(frozen=True)
class Maps:
    """All maps of a module, and how large it is.

    Attributes:
        maps: by what they make: "q", "k", "v" or "kv" or "qkv", and "out".
        packing: how "qkv" holds its three.
    """

    maps: Mapping[str, Map]
    sizes: Sizes
    packing: str = "q k v"

    @property
    def biased(self) -> bool:
        """Whether every map has a bias."""
        return all(one.biased for one in self.maps.values())

    def parameters(self, params: LayerParams) -> dict[str, Tensor]:
        """What the module's parameters have to be to have learned this."""
        none = {
            "b_q": params.w_q.new_zeros(params.w_q.shape[1:]),
            "b_k": params.w_k.new_zeros(params.w_k.shape[1:]),
            "b_v": params.w_v.new_zeros(params.w_v.shape[1:]),
        }
        b_q, b_k, b_v = (none[name] if getattr(params, name) is None else getattr(params, name) for name in ("b_q", "b_k", "b_v"))
        found = self.maps["out"].parameters(params.w_o.flatten(0, 1), params.b_o)
        if "qkv" in self.maps:
            return found | self.maps["qkv"].parameters(self._packed(params.w_q, params.w_k, params.w_v), self._packed(b_q, b_k, b_v))
        found |= self.maps["q"].parameters(params.w_q.flatten(-2), b_q.flatten())
        if "kv" in self.maps:
            return found | self.maps["kv"].parameters(_side_by_side(params.w_k, params.w_v), _side_by_side(b_k, b_v))
        return found | self.maps["k"].parameters(params.w_k.flatten(-2), b_k.flatten()) | self.maps["v"].parameters(params.w_v.flatten(-2), b_v.flatten())

    def _packed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Three tensors [.., heads, width] as one [.., out], in the order of the packing."""
        if self.packing == "q k v":
            return _side_by_side(q, k, v)
        if self.packing == "by head":
            return torch.stack([q, k, v], -2).flatten(-3)
        ratio = q.shape[-2] // k.shape[-2]
        return torch.cat([q.unflatten(-2, (-1, ratio)), k.unsqueeze(-2), v.unsqueeze(-2)], -2).flatten(-3)


def _side_by_side(*tensors: Tensor) -> Tensor:
    return torch.cat([x.flatten(-2) for x in tensors], -1)


def find_maps(module: nn.Module, given: Mapping[str, str] | None = None, num_heads: int | None = None, num_kv_heads: int | None = None) -> Maps:
    """The maps of an attention module.

    Args:
        given: names of submodules by what they make, such as {"q": "attn.to_q"}; the others are found by name.
        num_heads: where the module has no attribute that says so.

    Raises:
        ArgumentError: they cannot be found, or do not fit together.
    """
    linear = {name: part for name, part in module.named_modules() if _is_linear(part)}
    found = {what: _map(name, linear, what) for what, name in (given or {}).items()}
    for what, names in NAMES.items():
        hits = [name for name in linear if name.rpartition(".")[2].lower() in names or (what == "out" and name.lower().endswith(LAST_OF_SEVERAL))]
        if what not in found and len(hits) == 1:
            found[what] = _map(hits[0], linear, what)
    found = _whole(found)
    if found is None:
        raise ArgumentError(
            f"projections must be found by name or given, got {', '.join(linear) or 'no linear map'} in {type(module).__name__}. "
            'Give them: arguments={"projections": {"q": ..., "k": ..., "v": ..., "out": ...}}.'
        )
    heads = num_heads or _attribute(module, HEADS)
    if not heads:
        raise ArgumentError(f"num_heads must be known, got no such attribute in {type(module).__name__}. Give it: arguments={{'num_heads': ...}}.")
    return Maps(found, _sizes(found, linear, heads, num_kv_heads or _attribute(module, KEY_HEADS), type(module).__name__))


def _is_linear(part: nn.Module) -> bool:
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"


def _map(name: str, linear: Mapping[str, nn.Module], what: str) -> Map:
    if name not in linear:
        raise ArgumentError(f"projections[{what!r}] must be the name of a linear map, got {name!r}. There are {', '.join(linear)}.")
    part = linear[name]
    return Map(name, not isinstance(part, nn.Linear), getattr(part, "bias", None) is not None)


def _whole(found: Mapping[str, Map]) -> dict[str, Map] | None:
    """A set of maps that suffices."""
    for needed in (("q", "k", "v", "out"), ("q", "kv", "out"), ("qkv", "out")):
        if all(what in found for what in needed):
            return {what: found[what] for what in needed}
    return None


def _attribute(module: nn.Module, names: tuple[str, ...]) -> int | None:
    for holder in (module, getattr(module, "config", None)):
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int):
                return value
    return None


def _sizes(found: Mapping[str, Map], linear: Mapping[str, nn.Module], heads: int, groups: int | None, kind: str) -> Sizes:
    shapes = {what: _in_and_out(linear[one.name]) for what, one in found.items()}
    (read, model) = shapes["out"]
    if read % heads:
        raise ArgumentError(f"num_heads must divide what the output map reads, got {heads} and {read} in {kind}. Give num_heads.")
    wide = read // heads
    if "qkv" in shapes:
        context, total = shapes["qkv"]
        groups = groups or (total - heads * wide) // (2 * wide)
        width, spare = divmod(total - groups * wide, heads + groups)
    else:
        width, spare = divmod(shapes["q"][1], heads)
        context, total = shapes["kv"] if "kv" in shapes else shapes["k"]
        groups = groups or (total // width if "kv" not in shapes else total // (width + wide))
        wide_of_v = (total - groups * width) // groups if "kv" in shapes else shapes["v"][1] // groups
        spare = spare or wide_of_v != wide
    if spare or heads % groups or not width:
        raise ArgumentError(f"projections must split evenly over {heads} heads, got {shapes} in {kind}. Give num_heads and num_kv_heads.")
    return Sizes(model, context, heads, groups, width, wide)


def _in_and_out(part: nn.Module) -> tuple[int, int]:
    weight: Any = part.weight
    return tuple(weight.shape)[::-1] if isinstance(part, nn.Linear) else tuple(weight.shape)


def repacked(maps: Maps, packing: str) -> Maps:
    """The same maps, read as packed another way."""
    return replace(maps, packing=packing)
