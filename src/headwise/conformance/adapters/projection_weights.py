"""Where a module keeps its projections: linear submodules or bare parameters, found under the usual names or given by the caller."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.adapters.sizing.pad_to_size import Sizes
from headwise.errors import ArgumentError

# The last part of a submodule's or parameter's name, by role.
NAMES: Mapping[str, tuple[str, ...]] = {
    "q": ("q_proj", "to_q", "w_q", "wq", "q_lin", "q", "query", "q_linear", "linear_q", "query_proj", "queries", "query_key", "w_query", "fc_q", "proj_q"),
    "k": ("k_proj", "to_k", "w_k", "wk", "k_lin", "k", "key", "k_linear", "linear_k", "key_proj", "keys", "w_key", "fc_k", "proj_k"),
    "v": ("v_proj", "to_v", "w_v", "wv", "v_lin", "v", "value", "v_linear", "linear_v", "value_proj", "values", "w_value", "fc_v", "proj_v"),
    "kv": ("kv_proj", "to_kv", "w_kv", "kv", "wkv"),
    "qkv": ("qkv", "qkv_proj", "c_attn", "wqkv", "in_proj", "to_qkv", "query_key_value", "w_qkv", "attn_qkv", "proj_qkv"),
    "out": ("o_proj", "out_proj", "to_out", "w_o", "wo", "out", "out_lin", "c_proj", "proj", "dense", "o", "linear_o", "fc_o", "output", "proj_out", "proj_o"),
}
LAST_OF_SEVERAL = ("to_out.0", "output.dense", "out.0")  # an output projection in a Sequential, before its dropout
HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads", "h", "nheads", "head_count")
KEY_HEADS = ("num_kv_heads", "num_key_value_heads", "n_kv_heads", "kv_heads", "n_kv_head", "num_key_heads")
SINKS = ("sink", "sinks", "attention_sinks", "s_aux")
PACKINGS = ("q k v", "by head", "by group")
LAYOUTS = ("out in", "in out", "in heads width", "heads in width")


@dataclass(frozen=True)
class Projection:
    """One projection of a module.

    Attributes:
        name: of the linear submodule, or of the parameter.
        layout: the axes of the weight: [out, in] as in nn.Linear, [in, out] as in Conv1D, or split by head, [in, H, D] or [H, in, D]; of the output projection
            [H, D, out] in both of the latter.
        weight: name of the parameter that holds the weight.
        bias: name of the parameter that holds the bias; "" where there is none.
    """

    name: str
    layout: str
    weight: str
    bias: str

    def parameters(self, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
        """Its parameters for a weight [in, H, D] and a bias [H, D]; zeros where the module has a bias and the layer has none."""
        flat = weight.flatten(-2)
        arranged = {"out in": flat.T, "in out": flat, "in heads width": weight, "heads in width": weight.transpose(0, 1)}[self.layout]
        return {self.weight: arranged} | self._bias(flat.new_zeros(weight.shape[1:]) if bias is None else bias)

    def output_parameters(self, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
        """The parameters of an output projection for a weight [H, D, out] and a bias [out]."""
        flat = weight.flatten(0, 1)
        arranged = {"out in": flat.T, "in out": flat}.get(self.layout, weight)
        return {self.weight: arranged} | self._bias(weight.new_zeros(weight.shape[2]) if bias is None else bias)

    def _bias(self, bias: Tensor) -> dict[str, Tensor]:
        split = self.layout in ("in heads width", "heads in width")
        return {self.bias: bias if split else bias.flatten()} if self.bias else {}


@dataclass(frozen=True)
class Projections:
    """All projections of a module, and its sizes.

    Attributes:
        by_role: "q", "k", "v" or "kv" or "qkv", and "out".
        sizes: of the module.
        packing: how "qkv" holds the three.
        sink: name of the parameter that holds the sinks; "" where there is none.
    """

    by_role: Mapping[str, Projection]
    sizes: Sizes
    packing: str = "q k v"
    sink: str = ""

    @property
    def biases(self) -> frozenset[str]:
        """The biases of a layer that it has."""
        of_roles = {"q": ("b_q",), "k": ("b_k",), "v": ("b_v",), "kv": ("b_k", "b_v"), "qkv": ("b_q", "b_k", "b_v"), "out": ("b_o",)}
        return frozenset(bias for role, projection in self.by_role.items() if projection.bias for bias in of_roles[role])

    def parameters(self, params: LayerParams) -> dict[str, Tensor]:
        """The module's parameters, by name, for the parameters of a layer."""
        w = {name: getattr(params, f"w_{name}") for name in "qkv"}
        given = {name: getattr(params, f"b_{name}") for name in "qkv"}
        b = {name: w[name].new_zeros(w[name].shape[1:]) if bias is None else bias for name, bias in given.items()}
        found = self.by_role["out"].output_parameters(params.w_o, params.b_o)
        if self.sink and params.sink is not None:
            found[self.sink] = params.sink
        if "qkv" in self.by_role:
            return found | self.by_role["qkv"].parameters(self._packed(*w.values()), self._packed(*b.values()))
        if "kv" in self.by_role:
            found |= self.by_role["kv"].parameters(_side_by_side(w["k"], w["v"]), _side_by_side(b["k"], b["v"]))
        return found | {name: x for role in "qkv" if role in self.by_role for name, x in self.by_role[role].parameters(w[role], b[role]).items()}

    def _packed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Three tensors [.., heads, width] as one [.., 1, out], in the order of the packing."""
        if self.packing == "q k v":
            return _side_by_side(q, k, v)
        if self.packing == "by head":
            return torch.stack([q, k, v], -2).flatten(-3).unsqueeze(-2)
        ratio = q.shape[-2] // k.shape[-2]
        return torch.cat([q.unflatten(-2, (-1, ratio)), k.unsqueeze(-2), v.unsqueeze(-2)], -2).flatten(-3).unsqueeze(-2)

    def readings(self) -> Iterator["Projections"]:
        """The same projections under every reading of what their shapes leave open: the packing of q, k and v, and the order of the axes of bare parameters."""
        packings = PACKINGS if "qkv" in self.by_role else (self.packing,)
        bare = [role for role, projection in self.by_role.items() if projection.weight == projection.name and projection.layout in ("out in", "in out")]
        for layout in ("out in", "in out") if bare else ("",):
            arranged = {role: replace(one, layout=layout) if role in bare else one for role, one in self.by_role.items()}
            for packing in packings:
                yield replace(self, by_role=arranged, packing=packing)


def _side_by_side(*tensors: Tensor) -> Tensor:
    """Tensors [.., heads, width] as one [.., 1, out]."""
    return torch.cat([x.flatten(-2) for x in tensors], -1).unsqueeze(-2)


def find_projections(module: nn.Module, given: Mapping[str, str] | None = None, num_heads: int | None = None, num_kv_heads: int | None = None) -> Projections:
    """The projections of an attention module.

    Args:
        given: names of submodules or parameters by role, such as {"q": "attn.to_q"}; the others are found by name.
        num_heads, num_kv_heads: needed where no attribute of the module states them.

    Raises:
        ArgumentError: they cannot be found, or their shapes do not fit together.
    """
    linear = {name: part for name, part in module.named_modules() if _is_linear(part)}
    bare = {name: parameter for name, parameter in module.named_parameters() if name.rpartition(".")[0] not in linear and parameter.dim() in (2, 3)}
    found = {role: _given(name, linear, bare, role) for role, name in (given or {}).items()}
    for role, names in NAMES.items():
        if role in found:
            continue
        hits = [name for name in linear if name.rpartition(".")[2].lower() in names or (role == "out" and name.lower().endswith(LAST_OF_SEVERAL))]
        if len(hits) == 1:
            found[role] = _of_linear(hits[0], linear[hits[0]])
            continue
        hits = [name for name in bare if _stem(name) in names]
        if not hits:
            continue
        if len(hits) == 1:
            found[role] = _of_parameter(module, hits[0], bare[hits[0]])
    by_role = _sufficient(found)
    if by_role is None:
        raise ArgumentError(
            f"The projections of {type(module).__name__} were not found under the usual names; it has {', '.join([*linear, *bare]) or 'no linear maps'}. "
            'Name them: arguments={"projections": {"q": ..., "k": ..., "v": ..., "out": ...}}.'
        )
    heads = num_heads or _attribute(module, HEADS) or _split_heads(by_role, bare)
    if not heads:
        raise ArgumentError(f"{type(module).__name__} has no attribute that states its number of heads. Give it: arguments={{'num_heads': ...}}.")
    by_role = {role: _split_layout(one, bare.get(one.weight), heads, role) for role, one in by_role.items()}
    shapes = {role: _in_and_out(module, one, role) for role, one in by_role.items()}
    sizes = _sizes(shapes, heads, num_kv_heads or _attribute(module, KEY_HEADS), type(module).__name__)
    sink = next((name for name, parameter in module.named_parameters() if name in SINKS and tuple(parameter.shape) == (heads,)), "")
    return Projections(by_role, sizes, sink=sink)


def _stem(parameter: str) -> str:
    """The name of a parameter without the suffix that says what it is."""
    return parameter.rpartition(".")[2].lower().removesuffix("_weight")


def _is_linear(part: nn.Module) -> bool:
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"


def _given(name: str, linear: Mapping[str, nn.Module], bare: Mapping[str, Tensor], role: str) -> Projection:
    if name in linear:
        return _of_linear(name, linear[name])
    if name in bare:
        return Projection(name, "out in" if bare[name].dim() == 2 else "in heads width", name, "")
    raise ArgumentError(f"projections[{role!r}] must be the name of a linear map, got {name!r}. There are {', '.join([*linear, *bare])}.")


def _of_linear(name: str, part: nn.Module) -> Projection:
    bias = f"{name}.bias" if getattr(part, "bias", None) is not None else ""
    return Projection(name, "out in" if isinstance(part, nn.Linear) else "in out", f"{name}.weight", bias)


def _of_parameter(module: nn.Module, name: str, weight: Tensor) -> Projection:
    """A projection held as a bare parameter: "in_proj_weight" with "in_proj_bias", "w_q" with "b_q"."""
    known = {other for other, _ in module.named_parameters()}
    prefix, _, last = name.rpartition(".")
    prefix = f"{prefix}." if prefix else ""
    bias = prefix + (last.removesuffix("_weight") + "_bias" if last.endswith("_weight") else "b" + last[1:])
    layout = "out in" if weight.dim() == 2 else "in heads width"
    return Projection(name, layout, name, bias if bias in known and bias != name else "")


def _sufficient(found: Mapping[str, Projection]) -> dict[str, Projection] | None:
    """A set of projections that makes a layer, or None."""
    for roles in (("q", "k", "v", "out"), ("q", "kv", "out"), ("qkv", "out")):
        if all(role in found for role in roles):
            return {role: found[role] for role in roles}
    return None


def _attribute(module: nn.Module, names: tuple[str, ...]) -> int | None:
    for holder in (module, getattr(module, "config", None)):
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int):
                return value
    return None


def _split_heads(by_role: Mapping[str, Projection], bare: Mapping[str, Tensor]) -> int | None:
    """The number of heads of an output projection that is split by head, [H, D, out]."""
    weight = bare.get(by_role["out"].weight)
    return weight.shape[0] if weight is not None and weight.dim() == 3 else None


def _split_layout(projection: Projection, weight: Tensor | None, heads: int, role: str) -> Projection:
    """The projection with the order of its three axes: [H, in, D], as TransformerLens keeps it, where the first is as long as there are heads."""
    by_head = weight is not None and weight.dim() == 3 and role != "out" and weight.shape[0] == heads != weight.shape[1]
    return replace(projection, layout="heads in width") if by_head else projection


def _in_and_out(module: nn.Module, projection: Projection, role: str) -> tuple[int, int]:
    """How many numbers it reads, and how many it writes."""
    weight = module.get_parameter(projection.weight)
    if weight.dim() == 3:
        one, two, three = weight.shape
        if role == "out":
            return one * two, three
        return (two, one * three) if projection.layout == "heads in width" else (one, two * three)
    rows, columns = weight.shape
    return (columns, rows) if projection.layout == "out in" else (rows, columns)


def _sizes(shapes: Mapping[str, tuple[int, int]], heads: int, groups: int | None, kind: str) -> Sizes:
    (reads, d_model) = shapes["out"]
    if reads % heads:
        raise ArgumentError(f"num_heads must divide the width that the output projection reads, got {heads} and {reads} in {kind}. Give num_heads.")
    value_dim = reads // heads
    if "qkv" in shapes:
        d_context, total = shapes["qkv"]
        groups = groups or (total - heads * value_dim) // (2 * value_dim)
        head_dim, rest = divmod(total - groups * value_dim, heads + groups) if groups else (0, 1)
    else:
        head_dim, rest = divmod(shapes["q"][1], heads)
        d_context, total = shapes["kv"] if "kv" in shapes else shapes["k"]
        groups = groups or (total // max(head_dim, 1) if "kv" not in shapes else total // (head_dim + value_dim))
        width_of_v = 0 if not groups else (total - groups * head_dim) // groups if "kv" in shapes else shapes["v"][1] // groups
        rest = rest or int(width_of_v != value_dim)
    if rest or not groups or heads % groups or not head_dim:
        raise ArgumentError(f"The projections of {kind} do not split evenly over {heads} heads: {dict(shapes)}. Give num_heads and num_kv_heads.")
    return Sizes(d_model, d_context, heads, groups, head_dim, value_dim)


def with_packing(projections: Projections, packing: str) -> Projections:
    """The same projections, packed in another way."""
    return replace(projections, packing=packing)
