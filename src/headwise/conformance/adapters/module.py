"""An `nn.Module` as a subject: its maps found, its call learned from its signature, what it means probed."""

import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from headwise.attention.layer import LayerParams
from headwise.attention.position import NOPE, PositionEncoding, Rotary
from headwise.axes import Tensor
from headwise.conformance.adapters.argument_adapter import Dialect
from headwise.conformance.adapters.attention_call import DTYPES, ReturnedOdd
from headwise.conformance.adapters.convention_probe import Stated, abilities, alike, asked, plain, settle, usable_dtypes
from headwise.conformance.adapters.function import Found
from headwise.conformance.adapters.module_subject import Inputs, ModuleCall, ModuleLayer
from headwise.conformance.adapters.pad_to_size import Sizes
from headwise.conformance.adapters.projection_weights import PACKINGS, Maps, find_maps, repacked
from headwise.conformance.adapters.signature import SWITCHES, WEIGHTS, WORDS, Binding
from headwise.conformance.adapters.subject import ABILITIES, OF_LAYERS, OPTIONS, Refused
from headwise.conformance.problems.answer import Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_pool import layer
from headwise.errors import ArgumentError

KEYS, VALUES = ("key", "k", "keys"), ("value", "v", "values")
CONTEXT = ("context", "encoder_hidden_states", "key_value_states", "memory", "kv", "cross_hidden_states")
PADDING = ("key_padding_mask", "padding_mask")  # of a module, whose masks may have fewer axes
MASK_AXES = ("B H T S", "B T S", "T S", "B S")


@dataclass(frozen=True, eq=False)
class Spoken:
    """A module of any make.

    Attributes:
        module: its weights are put in at every call, and never changed.
        maps: where they go.
        dialect: how options are told.
        takes: its inputs.
        context: its keyword for what x looks at; "" where it has none.
        needs_context: it can look at nothing else.
        tokens_first: inputs and outputs are [T, B, M].
        mask_axes: of the masks it takes.
        always: options that it always has on: "causal", and a position.
    """

    module: nn.Module
    maps: Maps
    dialect: Dialect
    takes: Literal["x", "query key value"]
    context: str = ""
    needs_context: bool = False
    tokens_first: bool = False
    mask_axes: str = "B H T S"
    causal: bool = False
    position: PositionEncoding = NOPE
    grows: ClassVar[bool] = False

    @property
    def apart(self) -> bool:
        """Query, key and value are inputs of their own."""
        return self.takes == "query key value"

    def sizes(self, needed: Sizes) -> Sizes:
        """The module's own."""
        return self.maps.sizes

    def fresh(self) -> "Spoken":
        """With a copy of the module."""
        return replace(self, module=deepcopy(self.module))

    def run(self, params: LayerParams, inputs: Inputs, problem: Any, how: How) -> Answer:
        """Call the module with these maps."""
        if self.causal != problem.causal and (self.causal or "causal" not in self.dialect.binding.words):
            raise Refused("the module is always causal." if self.causal else "the module knows no causal.")
        if self.needs_context and getattr(problem, "context", None) is None:
            raise Refused(f"the module looks at {self.context} only.")
        if how.training and self._drops() and not (problem.dropout and "dropout" in self.dialect.binding.words):
            raise Refused("the module has dropout of its own.")
        if getattr(problem, "position", NOPE) != self.position:
            raise Refused("the module has positions of its own.")
        told = self.dialect.reworded(problem.having(mask=self._mask(problem), causal=problem.causal and not self.causal))
        words = self.dialect.keywords(told, how)
        x, *others = (part.transpose(0, 1) if self.tokens_first else part for part in inputs)
        if self.apart:
            arguments = (x, *others)
        else:
            arguments = (x,)
            if getattr(problem, "context", None) is not None:
                words[self.context] = others[0]
        parameters = {name: value.to(x.dtype) for name, value in self.maps.parameters(params).items()}
        self.module.train(how.training)
        found = torch.func.functional_call(self.module, parameters, arguments, words)
        output, weights = self._read(found)
        return Answer(output.transpose(0, 1) if self.tokens_first else output, weights if how.weights else None)

    def _drops(self) -> bool:
        """Whether training alone makes it drop something."""
        return any(isinstance(part, nn.Dropout) and part.p > 0 for part in self.module.modules())

    def _read(self, found: Any) -> tuple[Tensor, Tensor | None]:
        """The output and the weights among what came back."""
        parts = list(found) if isinstance(found, tuple | list) else [found]
        if not parts or not isinstance(parts[0], Tensor) or not parts[0].is_floating_point() or parts[0].dim() != 3:
            raise ReturnedOdd(f"a module must give back an output of 3 axes first, got {type(found).__name__}. Wrap it in a module that does.")
        return parts[0], next((part for part in parts[1:] if isinstance(part, Tensor) and part.dim() in (3, 4) and part.is_floating_point()), None)

    def _mask(self, problem: Any) -> Tensor | None:
        """The mask with as many axes as the module wants."""
        if problem.mask is None or "mask" not in self.dialect.binding.words:
            return problem.mask
        batch, heads, queries, keys = problem.shape
        if self.mask_axes == "B H T S":
            return problem.mask.expand(batch, 1 if problem.mask.dim() < 3 or problem.mask.shape[-3] == 1 else heads, queries, keys)
        whole = problem.mask.broadcast_to(batch, heads, queries, keys)
        for axis, letter in ((1, "H"), (0, "B"), (2, "T")):
            if letter not in self.mask_axes.split():
                first = whole.narrow(axis, 0, 1)
                if not bool((whole == first).all()):
                    raise Refused(f"the module takes masks of {self.mask_axes}, the same for all else.")
                whole = first
        kept = [n for n, letter in enumerate("BHTS") if letter in self.mask_axes.split()]
        return whole[tuple(slice(None) if n in kept else 0 for n in range(4))]


def of_module(
    module: nn.Module,
    name: str,
    declared: Mapping[str, Any],
    dtype: torch.dtype | None = None,
    device: str | None = None,
    projections: Mapping[str, str] | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
) -> tuple[Found, ...]:
    """Learn how to speak to a module; two subjects come of it: an attention of q, k and v, and a layer.

    Args:
        projections: names of its linear maps by what they make ("q", "k", "v" or "kv" or "qkv", "out"); the others are found by name.
        num_heads, num_kv_heads: where no attribute of the module says so.

    Raises:
        ArgumentError: its maps cannot be found, or it demands arguments that are not known.
    """
    where, dtypes = torch.device(device or "cpu"), (dtype,) if dtype is not None else DTYPES
    module = deepcopy(module).to(where).eval()
    _plain(module)
    maps = find_maps(module, projections, num_heads, num_kv_heads)
    body = _heard(module, maps, replace(Conventions(weights="never"), **declared))
    words = {option for option in OPTIONS if option in body.dialect.binding.words}
    layered = ModuleLayer(name, body, frozenset(words | ({"biases"} if maps.biased else set())), body.dialect.conventions, dtypes, where)
    layered, stated, understood = _understood(layered, frozenset(declared))
    body = layered.body
    words |= {"causal"} if body.causal else set()
    called = ModuleCall(name, body, frozenset(words), layered.conventions, dtypes, where)
    called = _with_masks(called) if body.position == NOPE else called
    called, told = settle(called, _speaking, TELLING, frozenset(declared))
    called, told_of_weights = _weights(called, frozenset(declared))
    stated += [*told, *told_of_weights]
    always = {"causal": True} if body.causal else {}
    lacks = {ability: why for ability, why in abilities(called, **always) if why is not None and ability not in NOT_OF_MODULES and body.position == NOPE}
    able = {ability for ability in ABILITIES if ability not in lacks} - NOT_OF_MODULES
    able -= {"weights"} if called.conventions.weights == "never" else set()
    able -= {"groups"} if maps.sizes.groups == maps.sizes.heads else set()
    able -= {"mask_by_head"} if called.conventions.dead_row == "nan" else set()  # the output map spreads the NaN of a head over all
    missing = {option: "its signature has no such argument" for option in OPTIONS if option not in called.honours}
    usable = usable_dtypes(called, dtypes) or dtypes[:1]
    called = replace(called, honours=called.honours | able, dtypes=usable)
    layered = replace(layered, body=called.body, conventions=called.conventions)
    longer = {"long"} if isinstance(_whole(layered, 40)[0], Answer) else set()
    others = ({"context"} if body.context or body.apart else set()) | ({"rotary"} if body.position != NOPE else set())
    known = (called.honours - {"long"}) | longer | layered.honours | others
    layered = ModuleLayer(name, called.body, known, called.conventions, usable, where)
    missing_of_layer = {word: "the module knows no such thing" for word in OF_LAYERS if word not in known}
    founds = [Found(layered, tuple(stated), {**missing, **missing_of_layer, **lacks})]
    return tuple([Found(called, (), {}), *founds] if understood and body.position == NOPE else founds)


TELLING = ("mask_polarity", "corner", "window_counts_own", "dead_row")
NOT_OF_MODULES = frozenset({"value_width", "empty", "lse", "offset_by_row"})


def _plain(module: nn.Module) -> None:
    """Norms of queries and keys are no part of the formula: what such a module gives is right by another one.

    Raises:
        ArgumentError: it has any.
    """
    norms = [name for name, part in module.named_modules() if name and "norm" in type(part).__name__.lower()]
    if norms:
        said = f"{type(module).__name__} which has {', '.join(norms)}"
        raise ArgumentError(f"subject must consist of its maps and the attention between them, got {said}. Check the function that it calls between them.")


def _heard(module: nn.Module, maps: Maps, conventions: Conventions) -> Spoken:
    """What the signature of `forward` says."""
    kind = type(module).__name__
    parameters = list(inspect.signature(module.forward).parameters.values())
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    apart = len(places) > 2 and places[1].name in KEYS and places[2].name in VALUES
    rest = {p.name: p for p in parameters if p not in places[: 3 if apart else 1] and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    names = {**WORDS, "mask": (*WORDS["mask"], *PADDING)}
    words = {option: found[0] for option, known in names.items() if (found := [word for word in known if word in rest])}
    context = next((word for word in CONTEXT if word in rest), "")
    asks = next((word for word in WEIGHTS if word in rest), "")
    required = frozenset(name for name, p in rest.items() if p.default is p.empty)
    unknown = sorted(required - set(words.values()) - {asks, context})
    if unknown:
        raise ArgumentError(
            f"subject must demand no input beside x, context and mask, got {kind} which demands {', '.join(unknown)}. Wrap it in a module that gives them."
        )
    binding = Binding(module, kind, MappingProxyType(words), asks, frozenset(rest).intersection(SWITCHES) - {"enable_gqa"}, required - {context})
    first = getattr(module, "batch_first", None) is False
    return Spoken(module, maps, Dialect(binding, conventions), "query key value" if apart else "x", context, context in required, first)


def _understood(subject: ModuleLayer, declared: frozenset[str]) -> tuple[ModuleLayer, list[Stated], bool]:
    """The order of tokens and batch, how maps are packed, and what the module does at every call, from one problem that tells all of these apart.

    Whether anything explains what came is the last that is given back: what a module as an attention gives means nothing where it is wrong as a layer.
    """
    body: Spoken = subject.body
    packings = PACKINGS if "qkv" in body.maps.maps and "qkv_packing" not in declared else (body.maps.packing,)
    turning = (NOPE, Rotary(), Rotary(pairing="neighbours")) if body.maps.sizes.width % 2 == 0 else (NOPE,)
    for position in turning:
        for causal in (False, True):
            for first in (body.tokens_first, not body.tokens_first):
                for packing in packings:
                    guess = replace(body, maps=repacked(body.maps, packing), tokens_first=first, causal=causal, position=position)
                    candidate = replace(subject, body=guess)
                    if _explains(candidate):
                        return *_named(candidate, guess, declared), True
    return subject, [], False


def _named(subject: ModuleLayer, body: Spoken, declared: frozenset[str]) -> tuple[ModuleLayer, list[Stated]]:
    found: dict[str, Any] = {}
    if "qkv" in body.maps.maps:
        found["qkv_packing"] = body.maps.packing
    if isinstance(body.position, Rotary):
        found["rope_pairing"] = body.position.pairing
    stated = [Stated(name, value, "declared" if name in declared else "probed") for name, value in found.items()]
    conventions = replace(subject.conventions, **found)
    body = replace(body, dialect=replace(body.dialect, conventions=conventions))
    return replace(subject, body=body, conventions=conventions), stated


def _explains(subject: ModuleLayer, tokens: int = 3) -> bool:
    """Whether the module gives what is right of one problem as large as itself."""
    got, problem = _whole(subject, tokens)
    return isinstance(got, Answer) and alike(got.output, problem.to(subject.dtypes[0]).right(subject.conventions).output)


def _whole(subject: ModuleLayer, tokens: int) -> tuple[Answer | Exception, LayerProblem]:
    """What the module gives of one problem as large as itself, and the problem."""
    body: Spoken = subject.body
    sizes = body.sizes(body.maps.sizes)
    large = {"model": sizes.model, "heads": sizes.heads, "groups": sizes.groups, "width": sizes.width, "wide": sizes.wide}
    problem = layer(tokens=tokens, sizes=large, causal=body.causal, position=body.position)
    if not body.maps.biased:
        problem = problem.having(b_q=None, b_k=None, b_v=None, b_o=None)
    if sizes.context != sizes.model or body.needs_context:
        problem = problem.having(
            context=problem.x.new_ones(2, 4, sizes.context).cumsum(1), w_k=_narrowed(problem, "w_k", sizes), w_v=_narrowed(problem, "w_v", sizes)
        )
    return asked(subject, problem), problem


def _narrowed(problem: LayerProblem, name: str, sizes: Sizes) -> Tensor:
    tensor = getattr(problem.params, name)
    return tensor.repeat(-(-sizes.context // tensor.shape[0]), 1, 1)[: sizes.context]


def _speaking(subject: ModuleCall, conventions: Conventions) -> ModuleCall:
    dialect = replace(subject.body.dialect, conventions=conventions)
    return replace(subject, body=replace(subject.body, dialect=dialect), conventions=conventions)


def _with_masks(subject: ModuleCall) -> ModuleCall:
    """How many axes the module's masks have, and whether they may be bool."""
    if "mask" not in subject.honours:
        return subject
    mask = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    mask[..., 4] = False
    problem = plain(queries=5, mask=mask)
    for axes in MASK_AXES:
        for polarity in ("keep", "hide"):
            for floats in (False, True):
                conventions = replace(subject.conventions, mask_polarity=polarity)
                body = replace(subject.body, mask_axes=axes, dialect=replace(subject.body.dialect, conventions=conventions, bool_masks=not floats))
                candidate = replace(subject, body=body, conventions=conventions)
                got = asked(candidate, problem)
                if isinstance(got, Answer) and alike(got.output, problem.right(conventions).output):
                    return candidate
    return subject


def _weights(subject: ModuleCall, declared: frozenset[str]) -> tuple[ModuleCall, list[Stated]]:
    """How weights are given back."""
    if "weights" in declared:
        return subject, []
    got = asked(subject, plain(queries=5), How(weights=True))
    given = "never"
    if isinstance(got, Answer) and got.weights is not None:
        given = "averaged" if got.weights.dim() == 3 else "per head"
    return _speaking(subject, replace(subject.conventions, weights=given)), [Stated("weights", given, "probed")]
