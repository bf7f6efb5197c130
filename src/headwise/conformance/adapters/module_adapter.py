"""An `nn.Module` as a subject: its projections found, its call read from its signature, its conventions and fixed options probed."""

import inspect
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import nn

from headwise.attention.layer import LayerParams
from headwise.attention.module import MultiHeadAttention
from headwise.attention.position import NOPE, Rotary
from headwise.axes import Tensor
from headwise.conformance.adapters.argument_adapter import ArgumentAdapter
from headwise.conformance.adapters.convention_probe import (
    ResolvedConvention,
    missing_abilities,
    probe,
    probe_conventions,
    probe_problem,
    roughly_equal,
    usable_dtypes,
)
from headwise.conformance.adapters.function_adapter import ResolvedSubject
from headwise.conformance.adapters.headwise_module import adapt_headwise_module
from headwise.conformance.adapters.module_subject import FixedOptions, Inputs, ModuleCall, ModuleLayer
from headwise.conformance.adapters.projection_weights import Projections, find_projections
from headwise.conformance.adapters.signature import EXTRA_KEYWORDS, OPTION_NAMES, WEIGHT_FLAGS, Binding
from headwise.conformance.adapters.sizing.pad_to_size import Sizes
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, DTYPES, LAYER_ABILITIES, OPTIONS
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem_pool import make_layer_problem
from headwise.errors import ArgumentError, InvalidReturn, NotSupported

KEYS, VALUES = ("key", "k", "keys"), ("value", "v", "values")
CONTEXT = ("context", "encoder_hidden_states", "key_value_states", "memory", "kv", "cross_hidden_states")
PADDING = ("key_padding_mask", "padding_mask")  # names of the masks of modules, which may have fewer axes
MASK_AXES = ("B H T S", "B T S", "T S", "B S")
PROBED = ("mask_polarity", "corner", "window_counts_own", "dead_row")
NOT_OF_MODULES = frozenset({"value_width", "empty", "lse", "offset_by_row"})
WINDOWS = ("window", "window_size", "sliding_window")
SCALES = ("scale", "scaling", "softmax_scale")
SOFTCAPS = ("softcap", "soft_cap", "attn_logit_softcapping")
NO_FIXED_OPTIONS = FixedOptions()
LONGEST_WINDOW = 64  # tokens that a problem has at most to show a window that an attribute states


@dataclass(frozen=True, eq=False)
class AdaptedModule:
    """A module with the projections of each problem.

    Attributes:
        module: the module; its own parameters are never changed.
        projections: where its parameters go.
        adapter: how options are passed.
        inputs: its positional inputs.
        context: its keyword for the context; "" where it has none.
        needs_context: it computes cross-attention only.
        sequence_first: its inputs and outputs are [T, B, M].
        mask_axes: the axes of its masks.
        fixed: the options that it applies at every call.
    """

    module: nn.Module
    projections: Projections
    adapter: ArgumentAdapter
    inputs: Literal["x", "query key value"]
    context: str = ""
    needs_context: bool = False
    sequence_first: bool = False
    mask_axes: str = "B H T S"
    fixed: FixedOptions = NO_FIXED_OPTIONS
    any_size: bool = field(default=False, init=False)

    @property
    def separate_inputs(self) -> bool:
        """Whether query, key and value are inputs of their own."""
        return self.inputs == "query key value"

    def sizes(self, needed: Sizes) -> Sizes:
        """The module's own sizes."""
        return self.projections.sizes

    def uncalled_copy(self) -> "AdaptedModule":
        """An adapter of a copy of the module."""
        return replace(self, module=deepcopy(self.module))

    def run(self, params: LayerParams, inputs: Inputs, problem: AnyProblem, mode: CallMode) -> Answer:
        """Call the module with these parameters."""
        self.fixed.require(problem, frozenset(self.adapter.binding.option_names))
        cross = isinstance(problem, LayerProblem) and problem.context is not None
        if self.needs_context and not cross:
            raise NotSupported(f"The module attends to its {self.context} only.")
        if mode.training and self._has_dropout() and not (problem.dropout and "dropout" in self.adapter.binding.option_names):
            raise NotSupported("The module has dropout of its own.")
        given: Any = problem.replace(mask=self._mask(problem), **({"causal": False} if self.fixed.causal else {}))
        given = self.adapter.translated(given)
        keywords = {name: value for name, value in self.adapter.keywords(given, mode).items() if not self._is_fixed(name)}
        x, *others = (part.transpose(0, 1) if self.sequence_first else part for part in inputs)
        arguments = (x, *others) if self.separate_inputs else (x,)
        if cross and not self.separate_inputs:
            keywords[self.context] = others[0]
        parameters = {name: value.to(x.dtype) for name, value in self.projections.parameters(params).items()}
        self.module.train(mode.training)
        output, weights = _output_and_weights(torch.func.functional_call(self.module, parameters, arguments, keywords))
        return Answer(output.transpose(0, 1) if self.sequence_first else output, weights if mode.weights else None)

    def _is_fixed(self, keyword: str) -> bool:
        names = self.adapter.binding.option_names
        return any(names.get(option) == keyword for option in self.fixed.names) and keyword not in self.adapter.binding.required

    def _has_dropout(self) -> bool:
        """Whether training mode alone makes it drop something."""
        return any(isinstance(part, nn.Dropout) and part.p > 0 for part in self.module.modules())

    def _mask(self, problem: AnyProblem) -> Tensor | None:
        """The mask with as many axes as the module takes."""
        if problem.mask is None or "mask" not in self.adapter.binding.option_names:
            return problem.mask
        batch, heads, queries, keys = problem.shape
        if self.mask_axes == "B H T S":
            return problem.mask.expand(batch, 1 if problem.mask.dim() < 3 or problem.mask.shape[-3] == 1 else heads, queries, keys)
        mask = problem.mask.broadcast_to(batch, heads, queries, keys)
        for axis, letter in ((1, "H"), (0, "B"), (2, "T")):
            if letter not in self.mask_axes.split():
                first = mask.narrow(axis, 0, 1)
                if not bool((mask == first).all()):
                    raise NotSupported(f"The module takes masks of the axes {self.mask_axes}.")
                mask = first
        kept = [n for n, letter in enumerate("BHTS") if letter in self.mask_axes.split()]
        return mask[tuple(slice(None) if n in kept else 0 for n in range(4))]


def _output_and_weights(found: object) -> tuple[Tensor, Tensor | None]:
    """The output and the attention weights among what a module returned."""
    parts = list(found) if isinstance(found, tuple | list) else [found]
    output = parts[0] if parts else None
    if not isinstance(output, Tensor) or not output.is_floating_point() or output.dim() != 3:
        raise InvalidReturn(f"It returned {type(found).__name__}, where an output of three axes is expected first. Wrap it in a module that returns one.")
    return output, next((part for part in parts[1:] if isinstance(part, Tensor) and part.dim() in (3, 4) and part.is_floating_point()), None)


def adapt_module(
    module: nn.Module,
    name: str,
    declared: Mapping[str, Any],
    dtype: torch.dtype | None = None,
    device: str | None = None,
    projections: Mapping[str, str] | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
) -> tuple[ResolvedSubject, ...]:
    """Learn how a module is called; it becomes two subjects: an attention of query, key and value, and a layer.

    Args:
        projections: names of its projections by role ("q", "k", "v" or "kv" or "qkv", "out"); the others are found by name.
        num_heads, num_kv_heads: needed where no attribute of the module states them.

    Raises:
        ArgumentError: its projections cannot be found, or it requires arguments with no known meaning.
    """
    where, dtypes = torch.device(device or "cpu"), (dtype,) if dtype is not None else DTYPES
    module = deepcopy(module).to(where).eval()
    if isinstance(module, MultiHeadAttention) and projections is None:
        return tuple(ResolvedSubject(subject, (), lacks) for subject, lacks in adapt_headwise_module(module, name, dtypes, where))
    _refuse_norms(module)
    body = _body(module, find_projections(module, projections, num_heads, num_kv_heads), replace(Conventions(weights="never"), **declared))
    options = {option for option in OPTIONS if option in body.adapter.binding.option_names}
    biases = {"biases"} if body.fixed.biases else set()
    layer = ModuleLayer(name, body, frozenset(options | biases), body.adapter.conventions, dtypes, where)
    layer, body, conventions, explained = _with_reading(layer, body, frozenset(declared))
    options |= body.fixed.names
    call = ModuleCall(name, body, frozenset(options), layer.conventions, dtypes, where)
    call = _with_mask_axes(call) if body.fixed.position == NOPE else call
    call, probed = probe_conventions(call, _with_conventions, PROBED, frozenset(declared))
    call, of_weights = _with_weights(call, frozenset(declared))
    conventions += [*probed, *of_weights]
    always = {option: getattr(body.fixed, option) for option in body.fixed.names - {"sink", "dropout"}}
    lacks = {
        ability: why
        for ability, why in missing_abilities(call, **always)
        if why is not None and ability not in NOT_OF_MODULES and body.fixed.position == NOPE and not body.fixed.sink
    }
    able = {ability for ability in ABILITIES if ability not in lacks} - NOT_OF_MODULES
    able -= {"weights"} if call.conventions.weights == "never" else set()
    able -= {"groups"} if body.projections.sizes.num_kv_heads == body.projections.sizes.num_heads else set()
    able -= {"mask_by_head"} if call.conventions.dead_row == "nan" else set()  # the output projection spreads the NaN of one head over all
    missing = {option: "its signature has no such argument" for option in OPTIONS if option not in call.supports}
    usable = usable_dtypes(call, dtypes) or dtypes[:1]
    call = replace(call, supports=call.supports | able, dtypes=usable)
    layer = replace(layer, body=call.body, conventions=call.conventions)
    longer = {"long"} if isinstance(_own_size_answer(layer, _adapted(call), 40)[0], Answer) else set()
    others = ({"context"} if body.context or body.separate_inputs else set()) | ({"rotary"} if isinstance(body.fixed.position, Rotary) else set())
    supported = (call.supports - {"long"}) | longer | layer.supports | others
    layer = ModuleLayer(name, call.body, supported, call.conventions, usable, where)
    lacking_of_layer = {ability: "the module has no such thing" for ability in LAYER_ABILITIES if ability not in supported}
    found = ResolvedSubject(layer, tuple(conventions), {**missing, **lacking_of_layer, **lacks})
    return (ResolvedSubject(call, (), {}), found) if explained and body.fixed.position == NOPE else (found,)


def _refuse_norms(module: nn.Module) -> None:
    """Refuse modules that normalise queries or keys: the formula has no norms.

    Raises:
        ArgumentError: it has a norm.
    """
    norms = [name for name, part in module.named_modules() if name and "norm" in type(part).__name__.lower()]
    if norms:
        raise ArgumentError(
            f"{type(module).__name__} contains {', '.join(norms)}, which plain multi-head attention does not have. "
            "Check the function that computes its attention."
        )


def _body(module: nn.Module, projections: Projections, conventions: Conventions) -> AdaptedModule:
    """How the signature of `forward` says that the module is called."""
    kind = type(module).__name__
    parameters = list(inspect.signature(module.forward).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    separate = len(positional) > 2 and positional[1].name in KEYS and positional[2].name in VALUES
    rest = {p.name: p for p in parameters if p not in positional[: 3 if separate else 1] and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known = {**OPTION_NAMES, "mask": (*OPTION_NAMES["mask"], *PADDING)}
    names = {option: hits[0] for option, usual in known.items() if (hits := [name for name in usual if name in rest])}
    context = next((name for name in CONTEXT if name in rest), "")
    weights_flag = next((name for name in WEIGHT_FLAGS if name in rest), "")
    required = frozenset(name for name, p in rest.items() if p.default is p.empty)
    unknown = sorted(required - set(names.values()) - {weights_flag, context})
    if unknown:
        raise ArgumentError(
            f"{kind} requires the arguments {', '.join(unknown)}, whose meaning is unknown. Wrap it in a module of x, context and mask that passes them."
        )
    extra = frozenset(rest).intersection(EXTRA_KEYWORDS) - {"enable_gqa"}
    binding = Binding(module, kind, MappingProxyType(names), weights_flag, extra, required - {context})
    fixed = FixedOptions(biases=projections.biases, sink=bool(projections.sink))
    first = getattr(module, "batch_first", None) is False
    inputs = "query key value" if separate else "x"
    return AdaptedModule(module, projections, ArgumentAdapter(binding, conventions), inputs, context, context in required, first, fixed=fixed)


def _with_reading(layer: ModuleLayer, body: AdaptedModule, declared: frozenset[str]) -> tuple[ModuleLayer, AdaptedModule, list[ResolvedConvention], bool]:
    """The layer as one problem shows it to be: the packing of its projections, the order of tokens and batch, and the options that it always applies.

    The last of what is returned is False where no reading explains the module's output: then it is wrong as a layer, and means nothing as an attention.
    """
    for reading in _readings(body, declared):
        candidate = replace(layer, body=reading)
        if _explains(candidate, reading):
            return *_named(candidate, reading, declared), True
    return layer, body, [], False


def _readings(body: AdaptedModule, declared: frozenset[str]) -> Iterator[AdaptedModule]:
    """Every way to read what the module's signature and parameters leave open, the most common first."""
    positions = (NOPE, Rotary(), Rotary(pairing="neighbours")) if body.projections.sizes.head_dim % 2 == 0 else (NOPE,)
    readings = [body.projections] if "qkv_packing" in declared else list(body.projections.readings())
    for stated in _stated_options(body):
        for position in positions:
            for causal in (False, True):
                for first in (body.sequence_first, not body.sequence_first):
                    for projections in readings:
                        fixed = replace(body.fixed, causal=causal, position=position, **stated)
                        yield replace(body, projections=projections, sequence_first=first, fixed=fixed)


def _stated_options(body: AdaptedModule) -> list[dict[str, Any]]:
    """Options that attributes of the module state, and that it does not take as arguments: all of them together first, then none."""
    stated: dict[str, Any] = {}
    for option, attributes, kind in (("window", WINDOWS, int), ("scale", SCALES, float), ("softcap", SOFTCAPS, float)):
        value = next((value for name in attributes if isinstance(value := getattr(body.module, name, None), kind) and not isinstance(value, bool)), None)
        usual = option == "scale" and value is not None and abs(value * body.projections.sizes.head_dim**0.5 - 1) < 1e-6
        if value is not None and value > 0 and not usual and option not in body.adapter.binding.option_names:
            stated[option] = value
    return [stated, {}] if stated else [{}]


def _named(layer: ModuleLayer, body: AdaptedModule, declared: frozenset[str]) -> tuple[ModuleLayer, AdaptedModule, list[ResolvedConvention]]:
    """The layer with the conventions that its reading implies."""
    found: dict[str, Any] = {}
    if "qkv" in body.projections.by_role:
        found["qkv_packing"] = body.projections.packing
    if isinstance(body.fixed.position, Rotary):
        found["rope_pairing"] = body.fixed.position.pairing
    conventions = [ResolvedConvention(name, value, "declared" if name in declared else "probed") for name, value in found.items()]
    resolved = replace(layer.conventions, **found)
    body = replace(body, adapter=replace(body.adapter, conventions=resolved))
    return replace(layer, body=body, conventions=resolved), body, conventions


def _explains(layer: ModuleLayer, body: AdaptedModule) -> bool:
    """Whether the module's output is the expected one on a problem of its own size."""
    window = body.fixed.window
    reach = 0 if window is None else window if isinstance(window, int) else max(side or 0 for side in window)
    got, problem = _own_size_answer(layer, body, max(3, min(reach + 2, LONGEST_WINDOW)))
    return isinstance(got, Answer) and roughly_equal(got.output, problem.to(layer.dtypes[0]).expected(layer.conventions).output)


def _own_size_answer(layer: ModuleLayer, body: AdaptedModule, tokens: int) -> tuple[Answer | Exception, LayerProblem]:
    """The module's answer to a problem of its own size, and the problem."""
    sizes = body.projections.sizes
    lengths = {"d_model": sizes.d_model, "heads": sizes.num_heads, "groups": sizes.num_kv_heads, "head_dim": sizes.head_dim, "value_dim": sizes.value_dim}
    problem = make_layer_problem(tokens=tokens, sizes=lengths)
    if sizes.d_context != sizes.d_model or body.needs_context:
        context = problem.x.new_ones(2, 4, sizes.d_context).cumsum(1)
        problem = problem.replace(context=context, w_k=_with_rows(problem.params.w_k, sizes.d_context), w_v=_with_rows(problem.params.w_v, sizes.d_context))
    problem = body.fixed.applied_to_layer(problem)
    return probe(layer, problem), problem


def _with_rows(weight: Tensor, rows: int) -> Tensor:
    """The weight repeated along its first axis up to a length."""
    return weight.repeat(-(-rows // weight.shape[0]), 1, 1)[:rows]


def _adapted(call: ModuleCall) -> AdaptedModule:
    """The body of a call that this file has made."""
    if not isinstance(call.body, AdaptedModule):
        raise TypeError(f"body must be an AdaptedModule, got {type(call.body).__name__}.")
    return call.body


def _with_conventions(call: ModuleCall, conventions: Conventions) -> ModuleCall:
    body = _adapted(call)
    return replace(call, body=replace(body, adapter=replace(body.adapter, conventions=conventions)), conventions=conventions)


def _with_mask_axes(call: ModuleCall) -> ModuleCall:
    """The call with masks of as many axes as the module takes, boolean or additive."""
    if "mask" not in call.supports:
        return call
    mask = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    mask[..., 4] = False
    problem = call.body.fixed.applied_to_call(probe_problem(queries=5, mask=mask))
    for axes in MASK_AXES:
        for polarity in ("keep", "hide"):
            for additive in (False, True):
                conventions = replace(call.conventions, mask_polarity=polarity)
                body = _adapted(call)
                body = replace(body, mask_axes=axes, adapter=replace(body.adapter, conventions=conventions, bool_masks=not additive))
                candidate = replace(call, body=body, conventions=conventions)
                got = probe(candidate, problem)
                if isinstance(got, Answer) and roughly_equal(got.output, problem.expected(conventions).output):
                    return candidate
    return call


def _with_weights(call: ModuleCall, declared: frozenset[str]) -> tuple[ModuleCall, list[ResolvedConvention]]:
    """The call with the convention of its returned weights."""
    if "weights" in declared:
        return call, []
    got = probe(call, call.body.fixed.applied_to_call(probe_problem(queries=5)), CallMode(weights=True))
    returned: Literal["per head", "averaged", "never"] = "never"
    if isinstance(got, Answer) and got.weights is not None:
        returned = "averaged" if got.weights.dim() == 3 else "per head"
    return _with_conventions(call, replace(call.conventions, weights=returned)), [ResolvedConvention("weights", returned, "probed")]
