"""A module as two subjects: a layer, from x to its output, and an attention of query, key and value, whose projections are set so that they change nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import torch

from headwise.attention.attend import Window
from headwise.attention.layer import LayerParams
from headwise.attention.position import NOPE, PositionEncoding, RelativeBuckets
from headwise.axes import Float, Tensor
from headwise.conformance.adapters.attention_call import CPU
from headwise.conformance.adapters.autograd import with_gradients
from headwise.conformance.adapters.sizing.cut_to_size import cut_call, cut_layer, resize_layer
from headwise.conformance.adapters.sizing.pad_to_size import Sizes, pad_call, pad_layer
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem, is_default
from headwise.conformance.problems.random_tensors import random_normal
from headwise.conformance.problems.subject import call_problem, layer_problem
from headwise.errors import NotSupported

Inputs = tuple[Tensor, Tensor, Tensor]
SMALLEST = Sizes(0, 0, 0, 0, 0, 0)
BIASES = ("b_q", "b_k", "b_v", "b_o")


@dataclass(frozen=True, eq=False)
class FixedOptions:
    """The options that a module applies at every call.

    Attributes:
        causal, window, scale, softcap, position: as in `hw.MultiHeadAttention`.
        dropout: probability of the dropout of attention weights in training.
        sink: the module has a learned sink for each head.
        biases: names of the biases that it has.
        context: every call has a context: the module computes cross-attention only.
    """

    causal: bool = False
    window: Window | None = None
    scale: float | None = None
    softcap: float | None = None
    position: PositionEncoding = NOPE
    dropout: float = 0.0
    sink: bool = False
    biases: frozenset[str] = frozenset(BIASES)
    context: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The options of `capabilities.OPTIONS` that are on."""
        optional = ("causal", "window", "scale", "softcap", "dropout", "sink")
        defaults = {field.name: field.default for field in fields(FixedOptions)}
        return frozenset(name for name in optional if getattr(self, name) != defaults[name])

    def applied_to_call(self, problem: Problem) -> Problem:
        """The problem with these options."""
        changes: dict[str, Any] = {name: getattr(self, name) for name in self.names - {"sink"}}
        if self.sink and problem.sink is None:
            changes["sink"] = random_normal(problem.query.shape[1], seed=210).to(problem.query)
        return problem.replace(**changes) if changes else problem

    def applied_to_layer(self, problem: LayerProblem) -> LayerProblem:
        """The problem with these options, and with the parameters that the module has."""
        params, heads = problem.params, problem.params.w_q.shape[1]
        changes: dict[str, Any] = {name: getattr(self, name) for name in self.names - {"sink"}}
        changes |= {name: None for name in BIASES if name not in self.biases and getattr(params, name) is not None}
        if self.sink and params.sink is None:
            changes["sink"] = random_normal(heads, seed=210).to(problem.x)
        if self.context and problem.context is None:
            changes["context"] = random_normal(len(problem.x), problem.x.shape[1], params.w_k.shape[0], seed=211).to(problem.x)
        if isinstance(self.position, RelativeBuckets):
            table = random_normal(len(self.position.table), heads, seed=212).to(problem.x)
            changes["position"] = replace(self.position, table=table)
        elif has_positions(self.position):
            changes["position"] = self.position
        return problem.replace(**changes) if changes else problem

    def require(self, problem: AnyProblem, accepted: frozenset[str]) -> None:
        """Refuse a problem with other options than these.

        Args:
            accepted: the options that the module takes as arguments.

        Raises:
            NotSupported: an option differs; the message names it.
        """
        for name in ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap"):
            value, fixed = getattr(problem, name), getattr(self, name, None)
            if name in self.names and value != fixed:
                raise NotSupported(f"The module is always called with {name}={fixed!r}.")
            if name not in self.names and name not in accepted and not is_default(value, Problem.__dataclass_fields__[name].default):
                raise NotSupported(f"The module has no option {name}.")
        sink = problem.params.sink if isinstance(problem, LayerProblem) else problem.sink
        if (sink is not None) != self.sink and "sink" not in accepted:
            raise NotSupported("The module always has a sink." if self.sink else "The module has no sink.")
        if not isinstance(problem, LayerProblem):
            return
        if not same_position(problem.position, self.position):
            raise NotSupported("The module has a position encoding of its own." if has_positions(self.position) else "The module has no position encoding.")
        lacking = [name for name in BIASES if name not in self.biases and getattr(problem.params, name) is not None]
        if lacking:
            raise NotSupported(f"The module has no {', '.join(lacking)}.")


def has_positions(position: PositionEncoding) -> bool:
    """Whether this is a position encoding at all: a copy of `NOPE` is not one, though it is another object."""
    return type(position) is not PositionEncoding


def same_position(one: PositionEncoding, other: PositionEncoding) -> bool:
    """Whether two position encodings have the same settings, the learned table of relative buckets apart."""
    if not has_positions(one) or not has_positions(other):
        return has_positions(one) == has_positions(other)
    if isinstance(one, RelativeBuckets) and isinstance(other, RelativeBuckets):
        settings = [(buckets.max_distance, buckets.bidirectional, len(buckets.table)) for buckets in (one, other)]
        return settings[0] == settings[1]
    return one == other


@runtime_checkable
class ModuleBody(Protocol):
    """What the adapter of a module offers."""

    @property
    def separate_inputs(self) -> bool:
        """Whether query, key and value are inputs of their own."""
        ...

    @property
    def any_size(self) -> bool:
        """Whether a module of any size can be made."""
        ...

    @property
    def fixed(self) -> FixedOptions:
        """The options that the module applies at every call."""
        ...

    def sizes(self, needed: Sizes) -> Sizes:
        """The sizes of the module that is to hold a problem of these sizes: its own, or the smallest that can be made."""
        ...

    def run(self, params: LayerParams, inputs: Inputs, problem: AnyProblem, mode: CallMode) -> Answer:
        """The module with these parameters, on these inputs, under the options of a problem."""
        ...

    def uncalled_copy(self) -> "ModuleBody":
        """An adapter of a copy of the module that has never been called."""
        ...


@dataclass(frozen=True, eq=False)
class ModuleLayer:
    """A module as a layer, with the parameters of each problem."""

    name: str
    body: ModuleBody
    supports: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device = CPU
    paths: tuple[str, ...] = ()
    level: Literal["layer"] = field(default="layer", init=False)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Compute the problem."""
        return with_gradients(self._run, layer_problem(problem), mode)

    def uncalled_copy(self) -> "ModuleLayer":
        """The same with a copy of the module that has never been called."""
        return replace(self, body=self.body.uncalled_copy())

    @property
    def cut(self) -> Callable[[LayerProblem], LayerProblem] | None:
        """Changes a problem into one that the module can compute."""
        return None if self.body.any_size else partial(_fitted_layer, sizes=self.body.sizes(SMALLEST), fixed=self.body.fixed)

    def _run(self, problem: LayerProblem, mode: CallMode) -> Answer:
        params, (d_model, heads, head_dim) = problem.params, problem.params.w_q.shape
        sizes = self.body.sizes(Sizes(d_model, params.w_k.shape[0], heads, params.w_k.shape[1], head_dim, params.w_v.shape[2]))
        if has_positions(self.body.fixed.position) and (heads, head_dim) != (sizes.num_heads, sizes.head_dim):
            raise NotSupported("Its position encoding depends on the number of heads and their width.")
        padded = pad_layer(problem, sizes)
        context = padded.x if padded.context is None else padded.context
        found = self.body.run(padded.params, (padded.x, context, context), padded, mode)
        writes = None if found.writes is None else found.writes[:, :heads, :, :d_model]
        return Answer(found.output[..., :d_model], without_padding_heads(found.weights, heads, sizes.num_heads), writes=writes)


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A module as an attention of query, key and value, whose output is z of every head.

    Where query, key and value are inputs of their own, each projection is the identity. Where there is a single input, its tokens are unit vectors, so that the
    rows of the projections are the queries, keys and values themselves.
    """

    name: str
    body: ModuleBody
    supports: frozenset[str]
    conventions: Conventions
    dtypes: tuple[torch.dtype, ...]
    device: torch.device = CPU
    paths: tuple[str, ...] = ()
    level: Literal["call"] = field(default="call", init=False)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Compute the problem."""
        return with_gradients(self._run, call_problem(problem), mode)

    def uncalled_copy(self) -> "ModuleCall":
        """The same with a copy of the module that has never been called."""
        return replace(self, body=self.body.uncalled_copy())

    @property
    def cut(self) -> Callable[[Problem], Problem] | None:
        """Changes a problem into one that the module can compute."""
        if self.body.any_size:
            return None
        return partial(_fitted_call, sizes=self.body.sizes(SMALLEST), fixed=self.body.fixed, square=not self.body.separate_inputs)

    def _run(self, problem: Problem, mode: CallMode) -> Answer:
        if not all(bool(x.isfinite().all()) for x in (problem.query, problem.key, problem.value)):
            raise NotSupported("The projections of a module spread numbers that are not finite.")
        batch, heads, queries, keys = problem.shape
        groups, head_dim, value_dim = problem.key.shape[1], problem.query.shape[3], problem.value.shape[3]
        tokens = batch * max(queries, keys)
        d_model = max(heads * head_dim, heads * value_dim) if self.body.separate_inputs else max(heads * value_dim, tokens)
        d_context = max(groups * head_dim, groups * value_dim) if self.body.separate_inputs else tokens
        sizes = self.body.sizes(Sizes(d_model, d_context, heads, groups, head_dim, value_dim))
        padded = pad_call(problem, sizes)
        if self.body.separate_inputs:
            params, inputs = identity_projections(padded, sizes)
        else:
            padded = as_self_attention(padded)
            params, inputs = unit_tokens(padded, sizes)
        found = self.body.run(params, inputs, padded, mode)
        z = found.output[..., : sizes.num_heads * sizes.value_dim].unflatten(-1, (sizes.num_heads, sizes.value_dim)).transpose(1, 2)
        weights = without_padding_heads(found.weights, heads, sizes.num_heads)
        return Answer(z[:, :heads, -queries or z.shape[2] :, :value_dim], None if weights is None else weights[..., -queries or weights.shape[-2] :, :])


def _fitted_layer(problem: LayerProblem, sizes: Sizes, fixed: FixedOptions) -> LayerProblem:
    exact = has_positions(fixed.position) or fixed.context
    return fixed.applied_to_layer(resize_layer(problem, sizes) if exact else cut_layer(problem, sizes))


def _fitted_call(problem: Problem, sizes: Sizes, fixed: FixedOptions, square: bool) -> Problem:
    return fixed.applied_to_call(cut_call(problem, sizes, square))


def without_padding_heads(weights: Tensor | None, heads: int, all_heads: int) -> Tensor | None:
    """The weights of the heads that are not padding.

    Raises:
        NotSupported: they are averaged over all heads.
    """
    if weights is None or heads == all_heads:
        return weights
    if weights.dim() == 3:
        raise NotSupported("Weights averaged over padding heads too cannot be compared.")
    return weights[:, :heads]


def heads_merged(x: Float[Tensor, "B H T D"], width: int) -> Float[Tensor, "B T M"]:
    """The heads side by side, zero-padded to a width."""
    flat = x.transpose(1, 2).flatten(2)
    return torch.nn.functional.pad(flat, (0, width - flat.shape[-1]))


def identity_projections(problem: Problem, sizes: Sizes) -> tuple[LayerParams, Inputs]:
    """Projections that are the identity, and query, key and value as inputs.

    Raises:
        NotSupported: the module is narrower than its heads together.
    """
    wide = sizes.num_heads * max(sizes.head_dim, sizes.value_dim) > sizes.d_model
    if wide or sizes.num_kv_heads * max(sizes.head_dim, sizes.value_dim) > sizes.d_context:
        raise NotSupported("The module is narrower than its heads together.")
    like = {"dtype": problem.dtype, "device": problem.query.device}
    w_q = torch.eye(sizes.d_model, sizes.num_heads * sizes.head_dim, **like).unflatten(1, (sizes.num_heads, sizes.head_dim))
    w_k = torch.eye(sizes.d_context, sizes.num_kv_heads * sizes.head_dim, **like).unflatten(1, (sizes.num_kv_heads, sizes.head_dim))
    w_v = torch.eye(sizes.d_context, sizes.num_kv_heads * sizes.value_dim, **like).unflatten(1, (sizes.num_kv_heads, sizes.value_dim))
    inputs = heads_merged(problem.query, sizes.d_model), heads_merged(problem.key, sizes.d_context), heads_merged(problem.value, sizes.d_context)
    return LayerParams(w_q, w_k, w_v, _identity_output(problem, sizes), sink=problem.sink), inputs


def unit_tokens(problem: Problem, sizes: Sizes) -> tuple[LayerParams, Inputs]:
    """One unit vector for each token of any sequence, and projections whose rows are the queries, keys and values.

    Raises:
        NotSupported: there are more tokens than the model is wide.
    """
    batch, _, tokens, _ = problem.query.shape
    if batch * tokens > sizes.d_model or sizes.num_heads * sizes.value_dim > sizes.d_model or sizes.d_context != sizes.d_model:
        raise NotSupported(f"A module that is {sizes.d_model} wide takes {sizes.d_model} tokens in all.")
    x = torch.eye(batch * tokens, sizes.d_model, dtype=problem.dtype, device=problem.query.device).unflatten(0, (batch, tokens))
    missing = sizes.d_model - batch * tokens
    w_q, w_k, w_v = (
        torch.nn.functional.pad(part.transpose(1, 2).flatten(0, 1), (0, 0, 0, 0, 0, missing)) for part in (problem.query, problem.key, problem.value)
    )
    return LayerParams(w_q, w_k, w_v, _identity_output(problem, sizes), sink=problem.sink), (x, x, x)


def _identity_output(problem: Problem, sizes: Sizes) -> Tensor:
    eye = torch.eye(sizes.num_heads * sizes.value_dim, sizes.d_model, dtype=problem.dtype, device=problem.query.device)
    return eye.unflatten(0, (sizes.num_heads, sizes.value_dim))


def as_self_attention(problem: Problem) -> Problem:
    """The same problem with a query for every key; the added queries come first, and nothing is hidden from them.

    Raises:
        NotSupported: there are more queries than keys, or the queries are not the last tokens.
    """
    _, _, queries, keys = problem.shape
    missing = keys - queries
    if missing == 0 and problem.query_offset in (None, 0):
        return problem.replace(query_offset=None)
    if missing < 0 or problem.query_offset not in (None, missing):
        raise NotSupported("Self-attention has one query for every key.")
    changes: dict[str, Any] = {"query": torch.nn.functional.pad(problem.query, (0, 0, missing, 0)), "query_offset": None}
    for name, fill in (("mask", True), ("bias", 0.0)):
        plane = getattr(problem, name)
        if plane is not None and plane.dim() > 1 and (plane.shape[-2] > 1 or queries == 1):
            full = plane.expand(*plane.shape[:-2], queries, plane.shape[-1])
            changes[name] = torch.cat([full.new_full((*full.shape[:-2], missing, full.shape[-1]), fill), full], -2)
    return problem.replace(**changes)
