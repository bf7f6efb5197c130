"""An attention of q, k and v: whatever computes it, asked a problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from headwise.attention.call import Attended
from headwise.axes import Tensor
from headwise.conformance.mutations.mutable_attention import answered
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentTypeError

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class Spelling:
    """One call as Python.

    Attributes:
        imports: lines that it needs.
        tensors: names that it uses, with what they hold.
        call: the expression; it gives what the subject gives.
    """

    imports: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    call: str


class ReturnedOdd(ArgumentTypeError):
    """What came back is neither a tensor, nor an output with weights, nor what `hw.attend` gives."""


@dataclass(frozen=True, eq=False)
class CallSubject:
    """A function of q, k and v, with what it knows and means.

    Attributes:
        compute: answers a problem in torch operations, so that gradients can be pulled back. Gives the output, or (output,
            weights), or what `hw.attend` gives.
        spelled: the same call as Python, for a test to be pasted; None where it cannot be said so.
        cut: makes any problem one that it has room for; None where it takes all sizes.

    The others are those of any `Subject`.
    """

    name: str
    compute: Callable[[Problem, How], Any]
    honours: frozenset[str]
    conventions: Conventions = OURS
    dtypes: tuple[torch.dtype, ...] = DTYPES
    device: torch.device = CPU
    paths: tuple[str, ...] = ()
    spelled: Callable[[Problem, How], "Spelling"] | None = None
    cut: Callable[[Problem], Problem] | None = None
    level: ClassVar[Literal["call"]] = "call"

    def attend(self, problem: Problem, how: How = PLAINLY) -> Answer:
        return answered(lambda asked, how: returned(self.compute(asked, how)), problem, how)


def returned(found: Any) -> Answer:
    """What a function gave back, read: an output, an output and weights, or what `hw.attend` gives.

    Raises:
        ReturnedOdd: it is none of these.

    Example:
        >>> returned((torch.zeros(1, 1, 2, 3), None)).output.shape
        torch.Size([1, 1, 2, 3])
    """
    if isinstance(found, Answer):
        return found
    if isinstance(found, Attended):
        return Answer(found.output, None, found.lse)
    output, weights = found if isinstance(found, tuple | list) and len(found) == 2 else (found, None)
    if not isinstance(output, Tensor) or not output.is_floating_point() or not isinstance(weights, Tensor | None):
        raise ReturnedOdd(f"a subject must give back a float tensor, or a pair of output and weights, got {_kind(found)}. Wrap it in a function that does.")
    return Answer(output, weights)


def _kind(found: Any) -> str:
    if isinstance(found, tuple | list):
        return f"{type(found).__name__} of {', '.join(map(_kind, found)) or 'nothing'}"
    return f"a {found.dtype} tensor" if isinstance(found, Tensor) else type(found).__name__
