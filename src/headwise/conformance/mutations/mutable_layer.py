"""A layer as a table of steps, chunk by chunk where there is a cache, with the engine's own functions: made to be attacked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, Literal

import torch

from headwise.attention.attend import make_call
from headwise.attention.call import accumulation_dtype
from headwise.attention.kv_cache import KVCache
from headwise.attention.layer import LayerParams
from headwise.attention.mask import positions
from headwise.attention.position import PositionEncoding, add_position_bias
from headwise.attention.projections import head_writes, project, sum_heads
from headwise.axes import Int, Tensor
from headwise.conformance.adapters.subject import ABILITIES, DTYPES, OF_LAYERS, OPTIONS
from headwise.conformance.mutations.mutable_attention import STEPS as OF_CALL
from headwise.conformance.mutations.mutable_attention import answered
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

At = SimpleNamespace  # what has been made so far, by name; `problem`, `how`, `chunk` (a slice of the text) and `past` from the start


def maps(at: At) -> LayerParams:
    return at.problem.params


def position(at: At) -> PositionEncoding:
    return at.problem.position


def asks(at: At) -> Tensor:
    """The tokens of this chunk."""
    return at.problem.x[:, at.chunk]


def answers(at: At) -> Tensor:
    return at.asks if at.problem.context is None else at.problem.context


def read_q(at: At) -> Tensor:
    return project(at.asks, at.maps.w_q, at.maps.b_q)


def read_k(at: At) -> Tensor:
    return project(at.answers, at.maps.w_k, at.maps.b_k)


def read_v(at: At) -> Tensor:
    return project(at.answers, at.maps.w_v, at.maps.b_v)


def place_k(at: At) -> Int[Tensor, "b S"]:
    """Where the new keys stand: after those of the past."""
    start = 0 if at.past is None else at.past.length
    return torch.arange(start, start + at.read_k.shape[2])[None]


def cache(at: At) -> KVCache:
    """All keys so far, turned, and their values."""
    k = at.position.rotate(at.read_k, at.place_k)
    return KVCache(k, at.read_v) if at.past is None else at.past.append(k, at.read_v)


def rules(at: At) -> dict[str, Any]:
    """The options of this chunk's call, in the words of `attend`."""
    problem, keys = at.problem, at.cache.length
    planes = {name: part(getattr(problem, name), at.chunk, keys) for name in ("mask", "bias")}
    named = {name: getattr(problem, name) for name in ("causal", "query_offset", "window", "scale", "softcap")}
    return {**named, **planes, "sink": at.maps.sink}


def place_q(at: At) -> Int[Tensor, "b T"]:
    """Where the queries stand."""
    return positions(make_call(at.read_q, at.cache.k, **at.rules), at.read_q.shape[2])


def q(at: At) -> Tensor:
    return at.position.rotate(at.read_q, at.place_q)


def lean(at: At) -> Any:
    """What positions add to the scores."""
    return at.position.bias(at.place_q[:, 0].expand(len(at.asks)), at.q.shape[1], accumulation_dtype(at.q.dtype))


def inside(at: At) -> At:
    """The attention inside, by the steps of a call."""
    bias = add_position_bias(at.rules["bias"], at.lean, at.q.shape[2], at.cache.length)
    bias = bias if bias is None or isinstance(bias, Tensor) else bias.tile(slice(0, at.q.shape[2]), slice(0, at.cache.length))
    call = Problem(at.q, at.cache.k, at.cache.v, **{**at.rules, "bias": bias}, dropout=at.problem.dropout)
    inner = At(problem=call, how=at.how)
    for name, step in OF_CALL.items():
        setattr(inner, name, at.instead.get(f"inside.{name}", step)(inner))
    return inner


def z(at: At) -> Tensor:
    return at.inside.output


def writes(at: At) -> Tensor:
    return head_writes(at.z, at.maps.w_o)


def out(at: At) -> Tensor:
    return sum_heads(at.writes, at.maps.b_o)


def told(at: At) -> Tensor:
    """What each head is said to write."""
    return at.writes


STEPS: Mapping[str, Callable[[At], Any]] = MappingProxyType(
    {
        step.__name__: step
        for step in (maps, position, asks, answers, read_q, read_k, read_v, place_k, cache, rules, place_q, q, lean, inside, z, writes, out, told)
    }
)


@dataclass(frozen=True, eq=False)
class LayerWay:
    """The way as a subject, honest or with some steps replaced; steps of the call inside are named "inside.…"."""

    instead: Mapping[str, Callable[[At], Any]] = field(default_factory=dict)
    name: str = "layer steps"
    honours: frozenset[str] = frozenset({*OPTIONS, *ABILITIES, *OF_LAYERS}) - {"lse"}
    conventions: Conventions = OURS
    paths: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = DTYPES
    device: ClassVar[torch.device] = torch.device("cpu")
    level: ClassVar[Literal["layer"]] = "layer"

    def attend(self, problem: LayerProblem, how: How = PLAINLY) -> Answer:
        return answered(self._walk, problem, how)

    def _walk(self, problem: LayerProblem, how: How) -> Answer:
        past, found = None, []
        for chunk in chunks(problem):
            at = At(problem=problem, how=how, chunk=chunk, past=past, instead=self.instead)
            for name, step in STEPS.items():
                setattr(at, name, self.instead.get(name, step)(at))
            past = at.cache
            found.append(at)
        weights = torch.cat([widened(at.inside.reported, past.length) for at in found], 2) if how.weights else None
        return Answer(torch.cat([at.out for at in found], 1), weights, writes=torch.cat([at.told for at in found], 2))


def chunks(problem: LayerProblem) -> list[slice]:
    """The parts of the text, one after the other."""
    ends = [sum(problem.chunks[: n + 1]) for n in range(len(problem.chunks))] or [problem.x.shape[1]]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def part(plane: Tensor | None, chunk: slice, keys: int) -> Tensor | None:
    """The rows of a chunk and the keys so far; axes of length 1 stay."""
    if plane is None:
        return None
    plane = plane[(None,) * (4 - plane.dim())]
    return plane[:, :, chunk if plane.shape[2] > 1 else slice(None), : keys if plane.shape[3] > 1 else None]


def widened(weights: Tensor, keys: int) -> Tensor:
    """Keys that came later have weight 0."""
    return torch.nn.functional.pad(weights, (0, keys - weights.shape[-1]))
