"""Gradients of an implementation's answer, computed by autograd from an upstream gradient of its output."""

from collections.abc import Callable
from typing import TypeVar

import torch

from headwise.axes import Tensor
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

P = TypeVar("P", Problem, LayerProblem)


def with_gradients(run: Callable[[P, CallMode], Answer], problem: P, mode: CallMode) -> Answer:
    """Run with or without gradients as the mode says, and add the gradients where there is an upstream gradient."""
    enabled = mode.grad or mode.upstream is not None
    if enabled:
        problem = problem.replace(**{name: x.detach().requires_grad_(mode.only_grad_of in ("", name)) for name, x in problem.float_tensors().items()})
    with torch.set_grad_enabled(enabled), torch.random.fork_rng(devices=[], enabled=mode.training and problem.dropout > 0):
        if mode.training and problem.dropout:
            torch.manual_seed(mode.seed)
        found = run(problem, mode)
    if mode.upstream is None:
        return found
    tensors = {name: x for name, x in problem.float_tensors().items() if x.requires_grad}
    objective = _UpstreamGradient.apply(found.output, mode.upstream)
    gradients = torch.autograd.grad([objective], list(tensors.values()), allow_unused=True, materialize_grads=True)
    return Answer(found.output.detach(), found.weights, found.lse, dict(zip(tensors, gradients, strict=True)), found.writes)


class _UpstreamGradient(torch.autograd.Function):
    """A scalar whose gradient with respect to the output is `upstream`, strides included.

    `torch.autograd.grad` takes an upstream gradient itself, and imports sympy for it, which takes a second.
    """

    @staticmethod
    def forward(ctx, output: Tensor, upstream: Tensor) -> Tensor:
        ctx.upstream = upstream
        return output.new_zeros(())

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.upstream, None
