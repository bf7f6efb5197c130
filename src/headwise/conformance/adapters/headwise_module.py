"""`hw.MultiHeadAttention` as a subject: the very module of the caller, with the options that it was made with."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from headwise.attention.layer import LayerOutput, LayerParams, Trace
from headwise.attention.module import MultiHeadAttention
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.axes import Tensor
from headwise.conformance.adapters.convention_probe import probe, probe_problem
from headwise.conformance.adapters.module_subject import BIASES, FixedOptions, Inputs, ModuleCall, ModuleLayer, has_positions
from headwise.conformance.adapters.sizing.pad_to_size import Sizes
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, LAYER_ABILITIES, OPTIONS
from headwise.conformance.conventions import OURS
from headwise.conformance.problems.chunking import chunk_slices, pad_keys, plane_of_chunk
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.errors import NotSupported

ARGUMENTS = frozenset({"query_offset", "mask", "bias"})
POSITIONS = {Rotary: "rotary", Alibi: "alibi", RelativeBuckets: "buckets"}


class _Methods(nn.Module):
    """A module whose forward pass is any method of another, so that `functional_call` can replace the parameters of each."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, method: str, *arguments: Tensor, **keywords: Any) -> Any:
        return getattr(self.module, method)(*arguments, **keywords)


@dataclass(frozen=True, eq=False)
class HeadwiseModule:
    """A `MultiHeadAttention` with the parameters of each problem: its `forward`, its `trace` where weights are requested, its `decode` for chunks."""

    module: MultiHeadAttention
    fixed: FixedOptions
    separate_inputs: bool = field(default=False, init=False)
    any_size: bool = field(default=False, init=False)

    def sizes(self, needed: Sizes) -> Sizes:
        """The module's own sizes."""
        return sizes_of(self.module)

    def uncalled_copy(self) -> "HeadwiseModule":
        """An adapter of a copy of the module."""
        return replace(self, module=deepcopy(self.module))

    def run(self, params: LayerParams, inputs: Inputs, problem: AnyProblem, mode: CallMode) -> Answer:
        """Call the module with these parameters."""
        self.fixed.require(problem, ARGUMENTS)
        if mode.training and problem.dropout != self.fixed.dropout:
            raise NotSupported(f"The module has a dropout of {self.fixed.dropout}.")
        self.module.train(mode.training)
        parameters = {f"module.{name}": value for name, value in self._parameters(params, problem).items()}
        traced = mode.weights or mode.path == "trace"
        if not isinstance(problem, LayerProblem) or not problem.chunks:
            return _answer([self._call("trace" if traced else "__call__", parameters, inputs, problem)], self._transposed)
        if traced or not problem.causal or problem.query_offset is not None or problem.context is not None:
            raise NotSupported("Chunks are decoded: causally, and without weights, an offset or a context.")
        past, found = None, []
        for chunk in chunk_slices(problem):
            planes = {name: plane_of_chunk(getattr(problem, name), chunk, chunk.stop) for name in ("mask", "bias")}
            found.append(self._run_method("decode", parameters, (inputs[0][:, chunk],), {"past": past, **planes}))
            past = found[-1].cache
        return _answer(found, self._transposed)

    def _call(self, method: str, parameters: dict[str, Tensor], inputs: Inputs, problem: AnyProblem) -> Any:
        x, context, _ = inputs
        keywords: dict[str, Any] = {"mask": problem.mask, "bias": problem.bias, "query_offset": problem.query_offset}
        return self._run_method(method, parameters, (x,) if context is x else (x, context), keywords)

    def _run_method(self, method: str, parameters: dict[str, Tensor], inputs: tuple[Tensor, ...], keywords: dict[str, Any]) -> Any:
        return torch.func.functional_call(_Methods(self.module), parameters, (method, *map(self._transposed, inputs)), keywords)

    def _transposed(self, x: Tensor) -> Tensor:
        """From [B, T, M] to the layout of the module, or back."""
        return x if self.module.batch_first else x.transpose(0, 1)

    def _parameters(self, params: LayerParams, problem: AnyProblem) -> dict[str, Tensor]:
        found = {name: value for name, value in vars(params).items() if value is not None}
        like = params.w_q
        found |= {name: like.new_zeros(getattr(self.module, name).shape) for name in BIASES if name in self.fixed.biases and name not in found}
        if isinstance(problem, LayerProblem) and isinstance(problem.position, RelativeBuckets):
            found["buckets"] = problem.position.table
        return found


def _answer(parts: list[Any], transposed: Any) -> Answer:
    """One answer from the results of all chunks."""
    outputs = [part.out if isinstance(part, LayerOutput | Trace) else part for part in parts]
    batch_first = [part.out if isinstance(part, Trace) else transposed(output) for part, output in zip(parts, outputs, strict=True)]
    traces = [part for part in parts if isinstance(part, Trace)]
    if not traces:
        return Answer(torch.cat(batch_first, 1))
    keys = traces[-1].weights.shape[-1]
    weights = torch.cat([pad_keys(path.weights, keys) for path in traces], 2)
    return Answer(torch.cat(batch_first, 1), weights, writes=torch.cat([path.writes for path in traces], 2))


def sizes_of(module: MultiHeadAttention) -> Sizes:
    """The sizes that the module was made with."""
    return Sizes(module.d_model, module.context_dim, module.num_heads, module.num_kv_heads, module.head_dim, module.value_dim)


def fixed_options(module: MultiHeadAttention) -> FixedOptions:
    """The options that the module was made with."""
    config = module.train().config
    module.eval()
    biases = frozenset(name for name in BIASES if getattr(module, name) is not None)
    cross = module.context_dim != module.d_model
    options = {"causal": config.causal, "window": config.window, "scale": config.scale, "softcap": config.softcap, "position": config.position}
    return FixedOptions(**options, dropout=config.dropout, sink=module.sink is not None, biases=biases, context=cross)


def adapt_headwise_module(
    module: MultiHeadAttention, name: str, dtypes: tuple[torch.dtype, ...], device: torch.device
) -> list[tuple[ModuleCall | ModuleLayer, dict[str, str]]]:
    """The module as a layer, and as an attention of query, key and value where it is wide enough for one; each with what is not tested."""
    fixed, sizes = fixed_options(module), sizes_of(module)
    body = HeadwiseModule(module, fixed)
    abilities = frozenset(ABILITIES) - {"lse", "empty"} - (frozenset({"groups"}) if sizes.num_heads == sizes.num_kv_heads else frozenset())
    supports = fixed.names | ARGUMENTS | abilities
    of_layer = {"settable", "context"} | ({"biases"} if fixed.biases else set()) | ({"chunks"} if fixed.causal else set())
    if has_positions(fixed.position):
        of_layer.add(POSITIONS[type(fixed.position)])
    layer = ModuleLayer(name, body, supports | of_layer, OURS, dtypes, device, paths=("trace",))
    lacks = {option: "the module was made without it" for option in OPTIONS if option not in supports}
    lacks |= {ability: "the module was made without it" for ability in LAYER_ABILITIES if ability not in layer.supports}
    call = ModuleCall(name, body, supports - {"offset_by_row", "value_width", "query_offset"}, OURS, dtypes, device, paths=("trace",))
    wide_enough = call.cut is not None and not isinstance(probe(call, call.cut(probe_problem(batch=1, queries=5))), NotSupported)
    return [(call, {}), (layer, lacks)] if wide_enough and not has_positions(fixed.position) else [(layer, lacks)]
