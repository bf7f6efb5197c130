"""A layer as a table of steps that mutations replace, chunk by chunk where there is a KV cache, with headwise's own functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import torch

from headwise.attention.attend import make_call
from headwise.attention.call import accumulation_dtype
from headwise.attention.kv_cache import KVCache
from headwise.attention.layer import LayerParams
from headwise.attention.mask import positions
from headwise.attention.position import PositionEncoding, add_position_bias
from headwise.attention.projections import head_writes, project, sum_heads
from headwise.axes import Int, Tensor
from headwise.conformance.adapters.autograd import with_gradients
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, DTYPES, LAYER_ABILITIES, OPTIONS
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.mutations.mutable_attention import STEPS as CALL_STEPS
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.problems.chunking import chunk_slices, pad_keys, plane_of_chunk
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import layer_problem


def params(state: State) -> LayerParams:
    return state.problem.params


def position(state: State) -> PositionEncoding:
    return state.problem.position


def query_tokens(state: State) -> Tensor:
    """The tokens of this chunk."""
    return state.problem.x[:, state.chunk]


def key_tokens(state: State) -> Tensor:
    return state.query_tokens if state.problem.context is None else state.problem.context


def project_q(state: State) -> Tensor:
    return project(state.query_tokens, state.params.w_q, state.params.b_q)


def project_k(state: State) -> Tensor:
    return project(state.key_tokens, state.params.w_k, state.params.b_k)


def project_v(state: State) -> Tensor:
    return project(state.key_tokens, state.params.w_v, state.params.b_v)


def key_positions(state: State) -> Int[Tensor, "b S"]:
    """The positions of the new keys, after those in the cache."""
    start = 0 if state.past is None else state.past.length
    return torch.arange(start, start + state.project_k.shape[2])[None]


def cache(state: State) -> KVCache:
    """All keys so far, positions applied, and their values."""
    k = state.position.rotate(state.project_k, state.key_positions)
    return KVCache(k, state.project_v) if state.past is None else state.past.append(k, state.project_v)


def options(state: State) -> dict[str, Any]:
    """The options of this chunk's call, as arguments of `attend`."""
    problem, keys = state.problem, state.cache.length
    planes = {name: plane_of_chunk(getattr(problem, name), state.chunk, keys) for name in ("mask", "bias")}
    named = {name: getattr(problem, name) for name in ("causal", "query_offset", "window", "scale", "softcap")}
    return {**named, **planes, "sink": state.params.sink}


def query_positions(state: State) -> Int[Tensor, "b T"]:
    """The positions of the queries."""
    return positions(make_call(state.project_q, state.cache.k, **state.options), state.project_q.shape[2])


def q(state: State) -> Tensor:
    return state.position.rotate(state.project_q, state.query_positions)


def position_bias(state: State) -> Any:
    """What positions add to the scores."""
    return state.position.bias(state.query_positions[:, 0].expand(len(state.query_tokens)), state.q.shape[1], accumulation_dtype(state.q.dtype))


def attention(state: State) -> State:
    """The results of the attention inside, step by step."""
    bias = add_position_bias(state.options["bias"], state.position_bias, state.q.shape[2], state.cache.length)
    bias = bias if bias is None or isinstance(bias, Tensor) else bias.tile(slice(0, state.q.shape[2]), slice(0, state.cache.length))
    call = Problem(state.q, state.cache.k, state.cache.v, **{**state.options, "bias": bias}, dropout=state.problem.dropout)
    inner = State(problem=call, mode=state.mode)
    for name, step in CALL_STEPS.items():
        setattr(inner, name, state.replaced.get(f"attention.{name}", step)(inner))
    return inner


def z(state: State) -> Tensor:
    return state.attention.output


def writes(state: State) -> Tensor:
    return head_writes(state.z, state.params.w_o)


def out(state: State) -> Tensor:
    return sum_heads(state.writes, state.params.b_o)


def reported_writes(state: State) -> Tensor:
    """The writes of each head that are returned on request."""
    return state.writes


STEPS: Mapping[str, Callable[[State], Any]] = MappingProxyType(
    {
        step.__name__: step
        for step in (
            params,
            position,
            query_tokens,
            key_tokens,
            project_q,
            project_k,
            project_v,
            key_positions,
            cache,
            options,
            query_positions,
            q,
            position_bias,
            attention,
            z,
            writes,
            out,
            reported_writes,
        )
    }
)


@dataclass(frozen=True, eq=False)
class MutableLayer:
    """The table of steps as a subject, unchanged or with some steps replaced; steps of the attention inside are named "attention.…"."""

    replaced: Mapping[str, Callable[[State], Any]] = field(default_factory=dict)
    name: str = "layer steps"
    supports: frozenset[str] = frozenset({*OPTIONS, *ABILITIES, *LAYER_ABILITIES}) - {"lse"}
    conventions: Conventions = OURS
    paths: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = DTYPES
    device: torch.device = field(default=torch.device("cpu"), init=False)
    level: Literal["layer"] = field(default="layer", init=False)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Run the steps."""
        return with_gradients(self._run, layer_problem(problem), mode)

    def _run(self, problem: LayerProblem, mode: CallMode) -> Answer:
        past: KVCache | None = None
        found: list[State] = []
        for chunk in chunk_slices(problem):
            state = State(problem=problem, mode=mode, chunk=chunk, past=past, replaced=self.replaced)
            for name, step in STEPS.items():
                setattr(state, name, self.replaced.get(name, step)(state))
            past = state.cache
            found.append(state)
        keys = 0 if past is None else past.length
        weights = torch.cat([pad_keys(state.attention.returned_weights, keys) for state in found], 2) if mode.weights else None
        return Answer(torch.cat([state.out for state in found], 1), weights, writes=torch.cat([state.reported_writes for state in found], 2))
