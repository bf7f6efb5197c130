"""Attention as a table of steps, on whole T × S planes with the engine's own functions: made to be attacked.

Each step is a function of what the steps before it left, and has the name of what it makes. An attack puts its own in
place of some; the rest goes on as before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, Literal

import torch

from headwise.attention.attend import make_call
from headwise.attention.call import Call
from headwise.attention.dense import cap_and_bias, dot_product, repeat_kv, softmax, visible_plane, weighted_sum
from headwise.axes import Tensor
from headwise.conformance.adapters.subject import ABILITIES, CLAIMS, DTYPES, OPTIONS
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.problem import Problem

At = SimpleNamespace  # what has been made so far, by name; `problem` and `how` from the start


def q(at: At) -> Tensor:
    return at.problem.query


def k(at: At) -> Tensor:
    """The keys, once for each query head that reads them."""
    return repeat_kv(at.problem.key, at.problem.query.shape[1])


def v(at: At) -> Tensor:
    return repeat_kv(at.problem.value, at.problem.query.shape[1])


def call(at: At) -> Call:
    """The options, written down."""
    options = {name: value for name, value in at.problem.options.items() if name != "dropout"}
    return make_call(at.problem.query, at.problem.key, **options)


def seen(at: At) -> Tensor:
    return visible_plane(at.call, at.q.shape[2], at.k.shape[2])


def raw(at: At) -> Tensor:
    return dot_product(at.q, at.k, at.seen) * at.call.scale


def scores(at: At) -> Tensor:
    """Capped, biased, and -inf where hidden."""
    return cap_and_bias(at.raw, at.call, at.seen)


def weights(at: At) -> Tensor:
    return softmax(at.scores, at.call.sink)[0]


def kept(at: At) -> Tensor:
    """The weights that dropout left."""
    if not (at.how.training and at.problem.dropout):
        return at.weights
    return at.weights * torch.dropout(torch.ones_like(at.weights), at.problem.dropout, train=True)


def z(at: At) -> Tensor:
    return weighted_sum(at.kept, at.v, at.seen)


def output(at: At) -> Tensor:
    return at.z.to(at.problem.query.dtype)


def reported(at: At) -> Tensor:
    """The weights that are given back when asked for."""
    return at.weights


STEPS: Mapping[str, Callable[[At], Any]] = MappingProxyType(
    {step.__name__: step for step in (call, q, k, v, seen, raw, scores, weights, kept, z, output, reported)}
)


@dataclass(frozen=True, eq=False)
class CallWay:
    """The way as a subject, honest or with some steps replaced."""

    instead: Mapping[str, Callable[[At], Any]] = field(default_factory=dict)
    name: str = "steps"
    honours: frozenset[str] = frozenset({*OPTIONS, *ABILITIES, *CLAIMS}) - {"lse"}
    conventions: Conventions = OURS
    paths: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = DTYPES
    device: ClassVar[torch.device] = torch.device("cpu")
    level: ClassVar[Literal["call"]] = "call"

    def attend(self, problem: Problem, how: How = PLAINLY) -> Answer:
        return answered(self._walk, problem, how)

    def _walk(self, problem: Problem, how: How) -> Answer:
        at = At(problem=problem, how=how)
        for name, step in STEPS.items():
            setattr(at, name, self.instead.get(name, step)(at))
        return Answer(at.output, at.reported if how.weights else None)


def answered(walk: Callable[[Any, How], Answer], problem: Any, how: How) -> Answer:
    """Walk with gradients enabled or not, and pull them back where there is an upstream gradient."""
    wanted = how.grad or how.upstream is not None
    if wanted:
        problem = problem.having(**{name: x.detach().requires_grad_(how.alone in ("", name)) for name, x in problem.floats().items()})
    with torch.set_grad_enabled(wanted), torch.random.fork_rng(devices=[], enabled=how.training and problem.dropout > 0):
        if how.training and problem.dropout:
            torch.manual_seed(how.seed)
        found = walk(problem, how)
    if how.upstream is None:
        return found
    tensors = {name: x for name, x in problem.floats().items() if x.requires_grad}
    slopes = torch.autograd.grad(_Pulled.apply(found.output, how.upstream), list(tensors.values()), allow_unused=True, materialize_grads=True)
    return Answer(found.output.detach(), found.weights, found.lse, dict(zip(tensors, slopes, strict=True)), found.writes)


class _Pulled(torch.autograd.Function):
    """A number whose gradient with respect to the output is `upstream`, its strides too. torch.autograd.grad, given one, loads sympy: a second."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, upstream: Tensor) -> Tensor:
        ctx.upstream = upstream
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return ctx.upstream, None
