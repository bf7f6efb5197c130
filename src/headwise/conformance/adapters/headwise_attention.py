"""headwise's own implementation as subjects: `hw.attend` with each of its kernels, and the layer by `forward` and by `trace`."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from headwise.attention.attend import attend, make_call
from headwise.attention.kv_cache import KVCache
from headwise.attention.layer import LayerConfig, LayerInputs, LayerOutput, Trace, forward, trace
from headwise.attention.weights import weights
from headwise.axes import Tensor, Weights
from headwise.catalog import entries
from headwise.conformance.adapters.autograd import with_gradients
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, DTYPES, LAYER_ABILITIES, OPTIONS
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.problems.chunking import chunk_slices, pad_keys, plane_of_chunk
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import call_problem, layer_problem


@dataclass(frozen=True, eq=False)
class HeadwiseAttend:
    """`hw.attend`, whose kernels are its paths. Weights are recomputed from q, k and lse, as everywhere in headwise."""

    backend: str | None = None
    conventions: Conventions = OURS
    dtypes: tuple[torch.dtype, ...] = DTYPES
    supports: frozenset[str] = field(default=frozenset({*OPTIONS, *ABILITIES}) - {"dropout"}, init=False)
    device: torch.device = field(default=torch.device("cpu"), init=False)
    level: Literal["call"] = field(default="call", init=False)

    @property
    def name(self) -> str:
        """The function, and the kernel where only one is checked."""
        return "hw.attend" if self.backend is None else f"hw.attend, {self.backend}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The kernels."""
        return tuple(entries("headwise.attention.kernels")) if self.backend is None else ()

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Compute the problem."""
        return with_gradients(self._run, call_problem(problem), mode)

    def _run(self, problem: Problem, mode: CallMode) -> Answer:
        options = {name: value for name, value in problem.options.items() if name != "dropout"}
        found = attend(problem.query, problem.key, problem.value, **options, backend=mode.path or self.backend)
        return Answer(found.output, all_weights(problem, found.lse, options) if mode.weights else None, found.lse)


def all_weights(problem: Problem, lse: Tensor, options: dict[str, Any]) -> Weights:
    """The attention weights, recomputed from lse."""
    call = make_call(problem.query, problem.key, **options)
    return weights(problem.query, problem.key, lse, call, slice(0, problem.shape[2]), slice(0, problem.shape[3]))


@dataclass(frozen=True, eq=False)
class HeadwiseLayer:
    """The layer: `forward`, or `trace` where weights are requested."""

    conventions: Conventions = OURS
    dtypes: tuple[torch.dtype, ...] = DTYPES
    name: str = field(default="hw.MultiHeadAttention", init=False)
    supports: frozenset[str] = field(default=frozenset({*OPTIONS, *ABILITIES, *LAYER_ABILITIES}) - {"lse"}, init=False)
    paths: tuple[str, ...] = field(default=("trace",), init=False)
    device: torch.device = field(default=torch.device("cpu"), init=False)
    level: Literal["layer"] = field(default="layer", init=False)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Compute the problem."""
        return with_gradients(self._run, layer_problem(problem), mode)

    def _run(self, problem: LayerProblem, mode: CallMode) -> Answer:
        dropout = problem.dropout if mode.training else 0.0
        config = LayerConfig(problem.causal, problem.window, problem.scale, problem.softcap, problem.position, dropout)
        past, outputs, traces = None, [], []
        for chunk in chunk_slices(problem):
            keys = chunk.stop if problem.context is None else problem.context.shape[1]
            planes = {name: plane_of_chunk(getattr(problem, name), chunk, keys) for name in ("mask", "bias")}
            inputs = LayerInputs(problem.context, past, query_offset=problem.query_offset, **planes)
            if mode.weights or mode.path == "trace":
                traces.append(trace(problem.x[:, chunk], problem.params, config, inputs))
                outputs.append(traces[-1].out)
                past = _cache(traces[-1])
            else:
                passed = forward(problem.x[:, chunk], problem.params, config, inputs)
                outputs.append(passed.out)
                past = _cache(passed)
        if not mode.weights or past is None:
            return Answer(torch.cat(outputs, 1))
        returned = torch.cat([pad_keys(path.weights, past.length) for path in traces], 2)
        return Answer(torch.cat(outputs, 1), returned, writes=torch.cat([path.writes for path in traces], 2))


def _cache(path: Trace | LayerOutput) -> KVCache:
    """The keys and values so far."""
    return path.cache if isinstance(path, LayerOutput) else KVCache(path.k, path.v)
