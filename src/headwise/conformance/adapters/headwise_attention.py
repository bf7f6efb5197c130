"""Our own engine as a subject: `hw.attend` with each of its kernels, and the layer by its short cut and its trace."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from headwise.attention.attend import attend, make_call
from headwise.attention.kv_cache import KVCache
from headwise.attention.layer import LayerConfig, LayerInputs, LayerOutput, Trace, forward, trace
from headwise.attention.weights import weights
from headwise.axes import Tensor, Weights
from headwise.catalog import entries
from headwise.conformance.adapters.subject import ABILITIES, DTYPES, OF_LAYERS, OPTIONS
from headwise.conformance.mutations.mutable_attention import answered
from headwise.conformance.mutations.mutable_layer import chunks, part, widened
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem


@dataclass(frozen=True, eq=False)
class OurAttend:
    """`hw.attend`; its kernels are its paths. Weights are made again from q, k and lse, as everywhere in headwise."""

    backend: str | None = None
    conventions: Conventions = OURS
    dtypes: tuple[torch.dtype, ...] = DTYPES
    honours: ClassVar[frozenset[str]] = frozenset({*OPTIONS, *ABILITIES}) - {"dropout"}
    device: ClassVar[torch.device] = torch.device("cpu")
    level: ClassVar[Literal["call"]] = "call"

    @property
    def name(self) -> str:
        return "hw.attend" if self.backend is None else f"hw.attend, {self.backend}"

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(entries("headwise.attention.kernels")) if self.backend is None else ()

    def attend(self, problem: Problem, how: How = PLAINLY) -> Answer:
        return answered(self._run, problem, how)

    def _run(self, problem: Problem, how: How) -> Answer:
        options = {name: value for name, value in problem.options.items() if name != "dropout"}
        found = attend(problem.query, problem.key, problem.value, **options, backend=how.path or self.backend)
        return Answer(found.output, again(problem, found.lse, options) if how.weights else None, found.lse)


def again(problem: Problem, lse: Tensor, options: dict) -> Weights:
    """All weights from lse."""
    call = make_call(problem.query, problem.key, **options)
    return weights(problem.query, problem.key, lse, call, slice(0, problem.shape[2]), slice(0, problem.shape[3]))


@dataclass(frozen=True, eq=False)
class OurLayer:
    """The layer: `forward`, or `trace` where weights are asked for."""

    conventions: Conventions = OURS
    dtypes: tuple[torch.dtype, ...] = DTYPES
    name: ClassVar[str] = "hw.MultiHeadAttention"
    honours: ClassVar[frozenset[str]] = frozenset({*OPTIONS, *ABILITIES, *OF_LAYERS}) - {"lse"}
    paths: ClassVar[tuple[str, ...]] = ("trace",)
    device: ClassVar[torch.device] = torch.device("cpu")
    level: ClassVar[Literal["layer"]] = "layer"

    def attend(self, problem: LayerProblem, how: How = PLAINLY) -> Answer:
        return answered(self._walk, problem, how)

    def _walk(self, problem: LayerProblem, how: How) -> Answer:
        dropout = problem.dropout if how.training else 0.0
        config = LayerConfig(problem.causal, problem.window, problem.scale, problem.softcap, problem.position, dropout)
        way = trace if how.weights or how.path == "trace" else forward
        past, found = None, []
        for chunk in chunks(problem):
            known = chunk.stop if problem.context is None else problem.context.shape[1]
            planes = {name: part(getattr(problem, name), chunk, known) for name in ("mask", "bias")}
            inputs = LayerInputs(problem.context, past, query_offset=problem.query_offset, **planes)
            found.append(way(problem.x[:, chunk], problem.params, config, inputs))
            past = _cache(found[-1])
        if not how.weights:
            return Answer(torch.cat([path.out for path in found], 1))
        shown = torch.cat([widened(path.weights, past.length) for path in found], 2)
        return Answer(torch.cat([path.out for path in found], 1), shown, writes=torch.cat([path.writes for path in found], 2))


def _cache(path: Trace | LayerOutput) -> KVCache:
    return path.cache if isinstance(path, LayerOutput) else KVCache(path.k, path.v)
