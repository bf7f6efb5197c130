"""The protocol of an implementation under test."""

from typing import Literal, Protocol, runtime_checkable

import torch

from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported


@runtime_checkable
class Subject(Protocol):
    """An implementation that can be checked: it answers problems, and states what it supports and what its arguments mean."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    @property
    def level(self) -> Literal["call", "layer"]:
        """Whether it answers a `Problem` (query, key, value → output) or a `LayerProblem` (x → output)."""
        ...

    @property
    def supports(self) -> frozenset[str]:
        """The names in `capabilities` of what it supports; anything else is not tested."""
        ...

    @property
    def conventions(self) -> Conventions:
        """What its arguments and results mean."""
        ...

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The dtypes that it accepts, the usual one first."""
        ...

    @property
    def device(self) -> torch.device:
        """Where its tensors must be."""
        ...

    @property
    def paths(self) -> tuple[str, ...]:
        """Other ways to the same result, by name for `CallMode.path`: a backend, a fast path, three axes instead of four."""
        ...

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Compute the problem, and leave its tensors unchanged.

        Raises:
            NotSupported: the implementation declares that it cannot compute this.
        """
        ...


def call_problem(problem: AnyProblem) -> Problem:
    """The problem as one of query, key and value.

    Raises:
        NotSupported: it is a layer problem.
    """
    if isinstance(problem, LayerProblem):
        raise NotSupported("It takes query, key and value, and no layer problem.")
    return problem


def layer_problem(problem: AnyProblem) -> LayerProblem:
    """The problem as one of a layer.

    Raises:
        NotSupported: it is a problem of query, key and value.
    """
    if not isinstance(problem, LayerProblem):
        raise NotSupported("It takes the input of a layer, and no query, key and value.")
    return problem
