"""Attention as a table of steps that mutations replace, on whole T × S planes with headwise's own functions.

Each step is a function of the results of the steps before it, and has the name of its result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal

import torch

from headwise.attention.attend import make_call
from headwise.attention.call import Call
from headwise.attention.dense import cap_and_bias, dot_product, repeat_kv, softmax, visible_plane, weighted_sum
from headwise.axes import Tensor
from headwise.conformance.adapters.autograd import with_gradients
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, CLAIMS, DTYPES, OPTIONS
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import call_problem

State = SimpleNamespace  # the results so far, by name; `problem` and `mode` from the start


def q(state: State) -> Tensor:
    return state.problem.query


def k(state: State) -> Tensor:
    """The keys, repeated for the query heads that share them."""
    return repeat_kv(state.problem.key, state.problem.query.shape[1])


def v(state: State) -> Tensor:
    return repeat_kv(state.problem.value, state.problem.query.shape[1])


def call(state: State) -> Call:
    """The options as a value."""
    options = {name: value for name, value in state.problem.options.items() if name != "dropout"}
    return make_call(state.problem.query, state.problem.key, **options)


def visible(state: State) -> Tensor:
    return visible_plane(state.call, state.q.shape[2], state.k.shape[2])


def raw_scores(state: State) -> Tensor:
    return dot_product(state.q, state.k, state.visible) * state.call.scale


def scores(state: State) -> Tensor:
    """The scores with softcap and bias, -inf where hidden."""
    return cap_and_bias(state.raw_scores, state.call, state.visible)


def weights(state: State) -> Tensor:
    return softmax(state.scores, state.call.sink)[0]


def used_weights(state: State) -> Tensor:
    """The weights after dropout."""
    if not (state.mode.training and state.problem.dropout):
        return state.weights
    return state.weights * torch.dropout(torch.ones_like(state.weights), state.problem.dropout, train=True)


def z(state: State) -> Tensor:
    return weighted_sum(state.used_weights, state.v, state.visible)


def output(state: State) -> Tensor:
    return state.z.to(state.problem.query.dtype)


def returned_weights(state: State) -> Tensor:
    """The weights that are returned on request."""
    return state.weights


STEPS: Mapping[str, Callable[[State], Any]] = MappingProxyType(
    {step.__name__: step for step in (call, q, k, v, visible, raw_scores, scores, weights, used_weights, z, output, returned_weights)}
)


@dataclass(frozen=True, eq=False)
class MutableAttention:
    """The table of steps as a subject, unchanged or with some steps replaced."""

    replaced: Mapping[str, Callable[[State], Any]] = field(default_factory=dict)
    name: str = "steps"
    supports: frozenset[str] = frozenset({*OPTIONS, *ABILITIES, *CLAIMS}) - {"lse"}
    conventions: Conventions = OURS
    paths: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = DTYPES
    device: torch.device = field(default=torch.device("cpu"), init=False)
    level: Literal["call"] = field(default="call", init=False)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Run the steps."""
        return with_gradients(self._run, call_problem(problem), mode)

    def _run(self, problem: Problem, mode: CallMode) -> Answer:
        state = State(problem=problem, mode=mode)
        for name, step in STEPS.items():
            setattr(state, name, self.replaced.get(name, step)(state))
        return Answer(state.output, state.returned_weights if mode.weights else None)
