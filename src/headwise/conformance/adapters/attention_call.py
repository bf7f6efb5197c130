"""An attention of query, key and value as a subject, whatever computes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from headwise.attention.call import Attended
from headwise.axes import Tensor
from headwise.conformance.adapters.autograd import with_gradients
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.capabilities import DTYPES
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import call_problem
from headwise.errors import InvalidReturn

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class SourceCall:
    """One call as Python source.

    Attributes:
        imports: the lines that it needs.
        tensors: the names that it uses, with their values.
        call: the expression, whose value is the subject's output.
    """

    imports: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    call: str


@dataclass(frozen=True, eq=False)
class CallSubject:
    """A function of query, key and value, with what it supports and its conventions.

    Attributes:
        compute: answers a problem with differentiable torch operations. It returns the output, or (output, weights), or what `hw.attend` returns.
        as_source: the same call as Python source, for a test that can be pasted; None where the call cannot be written as such.
        cut: reduces a problem to the sizes that it takes; None where it takes all sizes.

    The other attributes are those of any `Subject`.
    """

    name: str
    compute: Callable[[Problem, CallMode], object]
    supports: frozenset[str]
    conventions: Conventions = OURS
    dtypes: tuple[torch.dtype, ...] = DTYPES
    device: torch.device = CPU
    paths: tuple[str, ...] = ()
    as_source: Callable[[Problem, CallMode], SourceCall] | None = None
    cut: Callable[[Problem], Problem] | None = None
    level: Literal["call"] = field(default="call", init=False)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """Compute the problem."""
        return with_gradients(lambda given, mode: as_answer(self.compute(given, mode)), call_problem(problem), mode)


def as_answer(found: object) -> Answer:
    """The answer in what a function returned: an output, an output and weights, or what `hw.attend` returns.

    Raises:
        InvalidReturn: it is none of these.

    Example:
        >>> as_answer((torch.zeros(1, 1, 2, 3), None)).output.shape
        torch.Size([1, 1, 2, 3])
    """
    if isinstance(found, Answer):
        return found
    if isinstance(found, Attended):
        return Answer(found.output, None, found.lse)
    output, weights = found if isinstance(found, tuple | list) and len(found) == 2 else (found, None)
    if not isinstance(output, Tensor) or not output.is_floating_point() or not isinstance(weights, Tensor | None):
        raise InvalidReturn(f"It returned {_kind(found)}, where a float tensor or a pair of output and weights is expected. Wrap it in a function that does.")
    return Answer(output, weights)


def _kind(found: object) -> str:
    """What was returned, in words."""
    if isinstance(found, tuple | list):
        return f"a {type(found).__name__} of {', '.join(map(_kind, found)) or 'nothing'}"
    return f"a {found.dtype} tensor" if isinstance(found, Tensor) else type(found).__name__
