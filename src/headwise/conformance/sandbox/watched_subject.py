"""A subject under watch: what it raises, prints, changes or gives back in the wrong shape is written down, and the rest goes on."""

import io
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Literal

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import ReturnedOdd
from headwise.conformance.adapters.subject import Refused, Subject
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Finding, Severity
from headwise.errors import HeadwiseError

Manner = Literal["raises", "hangs", "dies", "shape", "dtype", "changes_inputs", "changes_settings", "draws", "prints"]

MANNERS: dict[str, tuple[Severity, str]] = {
    "raises": ("wrong", "What it takes it answers; what it cannot compute it refuses with NotImplementedError."),
    "hangs": ("wrong", "An answer comes within the time limit of a call."),
    "dies": ("wrong", "The process lives on after a call."),
    "shape": ("wrong", "The output is [B, H, T, E], the weights are [B, H, T, S]."),
    "dtype": ("wrong", "The output has the dtype of the query, and lies on the same device."),
    "changes_inputs": ("wrong", "Inputs come back as they were."),
    "changes_settings": ("wrong", "The default dtype is after a call what it was before."),
    "draws": ("convention", "Random numbers are drawn for dropout only."),
    "prints": ("convention", "A call prints nothing."),
}


class Misbehaved(HeadwiseError, RuntimeError):
    """A subject did not give an answer that can be judged.

    Attributes:
        manner: what it did instead.
        how: it was called.
        problem: that it was asked, where that is known.
    """

    def __init__(self, manner: Manner, why: str, how: How = PLAINLY, problem: Problem | LayerProblem | None = None) -> None:
        super().__init__(why)
        self.manner: Manner = manner
        self.how, self.problem = how, problem


@dataclass(eq=False)
class Watched:
    """The same subject; every call is watched.

    Attributes:
        calls: so many were made.
        answers: so many gave what can be judged.
        noted: the first of each kind of bad manners that did not keep it from answering.
        refused: what it said it cannot do, and on how many calls.
    """

    subject: Subject
    calls: int = 0
    answers: int = 0
    noted: dict[str, Finding] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def __deepcopy__(self, known: dict) -> "Watched":
        """A subject that was never called, where it can be had (a module is copied; the state of a function cannot be), written down in the same place."""
        fresh = getattr(self.subject, "fresh", None)
        return Watched(self.subject if fresh is None else fresh(), noted=self.noted, refused=self.refused)

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def level(self) -> Literal["call", "layer"]:
        return self.subject.level

    @property
    def honours(self) -> frozenset[str]:
        return self.subject.honours

    @property
    def conventions(self) -> Conventions:
        return self.subject.conventions

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        return self.subject.dtypes

    @property
    def device(self) -> torch.device:
        return self.subject.device

    @property
    def paths(self) -> tuple[str, ...]:
        return self.subject.paths

    def attend(self, problem: Problem | LayerProblem, how: How = PLAINLY) -> Answer:
        """The subject's answer.

        Raises:
            Refused: the subject says that it cannot compute this; NotImplementedError says so too.
            Misbehaved: it raised, or what it gave is no answer.
        """
        self.calls += 1
        if self.calls % 64 == 1:
            torch.rand(())  # so that whoever sets the state of random numbers anew at every call is seen
        before, settings, drawn = Memory(problem), Settings(), torch.get_rng_state()
        with said() as words, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = self.subject.attend(problem, how)
            except (Refused, NotImplementedError) as refusal:
                why = legible(str(refusal)) or type(refusal).__name__
                self.refused[why] = self.refused.get(why, 0) + 1
                raise Refused(why) from None
            except ReturnedOdd as odd:
                raise Misbehaved("shape", legible(str(odd)), how, problem) from None
            except Misbehaved as odd:
                raise Misbehaved(odd.manner, str(odd), how, problem) from None
            except Exception as error:  # noqa: BLE001 - whatever a stranger's code raises is to be reported
                raise Misbehaved("raises", raised(error), how, problem) from None
        for manner, finding in getattr(self.subject, "noted", {}).items():
            self.noted.setdefault(manner, finding)
        if before.changed():
            before.restore()
            self.note("changes_inputs", problem, how, "The tensors that were passed in hold other numbers after the call.")
        if settings.changed():
            self.note("changes_settings", problem, how, f"After the call the process has {settings.changed()}.")
            settings.restore()
        if not (how.training and problem.dropout) and not torch.equal(drawn, torch.get_rng_state()):
            self.note("draws", problem, how, "The state of torch's random numbers is another after the call.")
        if words.getvalue().strip():
            self.note("prints", problem, how, f"It printed {legible(words.getvalue().strip().splitlines()[0][:80])!r}.")
        odd = _oddness(answer, problem, self.subject.conventions)
        if odd is not None:
            raise Misbehaved(*odd, how, problem)
        self.answers += 1
        return answer

    def note(self, manner: Manner, problem: Problem | LayerProblem, how: How, why: str) -> None:
        """Write down what did not keep it from answering; the first of its kind only."""
        self.noted.setdefault(manner, Finding(MANNERS[manner][0], problem, why, how=how, invariant=manner))


class Settings:
    """What a call might leave otherwise in the process."""

    def __init__(self) -> None:
        self.dtype = torch.get_default_dtype()

    def changed(self) -> str:
        """What is otherwise, in words; "" where nothing is."""
        now = torch.get_default_dtype()
        return "" if now == self.dtype else f"{now} as its default dtype, which was {self.dtype}"

    def restore(self) -> None:
        torch.set_default_dtype(self.dtype)


class Memory:
    """The bytes of every tensor of a problem, to be compared and put back."""

    def __init__(self, problem: Problem | LayerProblem) -> None:
        tensors = [*problem.floats().values(), *([] if problem.mask is None else [problem.mask])]
        self.kept = [(memory, memory.clone()) for memory in map(_bytes, tensors)]

    def changed(self) -> bool:
        return not all(torch.equal(now, before) for now, before in self.kept)

    def restore(self) -> None:
        for now, before in self.kept:
            now.copy_(before)


def _bytes(tensor: Tensor) -> Tensor:
    """All the memory that a tensor looks at, whatever its strides."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.detach().untyped_storage())


@contextmanager
def said() -> Iterator[io.StringIO]:
    """What is printed meanwhile."""
    words = io.StringIO()
    with redirect_stdout(words), redirect_stderr(words):
        yield words


def legible(words: str) -> str:
    """Text that any page, file and terminal can hold: what cannot be printed is written as its escape.

    Example:
        >>> print(legible("\x1b[31mred\ud800"))
        \\x1b[31mred\\ud800
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words)


def raised(error: BaseException) -> str:
    """An error in a sentence, with the line of the stranger's code that raised it."""
    words = legible((str(error).strip().splitlines() or ["no message"])[0][:200].rstrip("."))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/headwise/" not in frame.filename]
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"It raises {type(error).__name__}: {words}{place}."


def _oddness(answer: Answer, problem: Problem | LayerProblem, conventions: Conventions) -> tuple[Manner, str] | None:
    """A wrong shape or dtype, in a sentence."""
    batch, heads, queries, keys = problem.shape
    if isinstance(problem, LayerProblem):
        right, dtype = (batch, queries, problem.params.w_o.shape[2]), problem.x.dtype
    else:
        right, dtype = (batch, heads, queries, problem.value.shape[3]), problem.query.dtype
    if tuple(answer.output.shape) != right:
        return "shape", f"The output is {list(answer.output.shape)} where {list(right)} is right."
    if answer.output.device.type != next(iter(problem.floats().values())).device.type:
        return "dtype", f"The output lies on {answer.output.device}, and what came in did not."
    if answer.output.dtype != dtype:
        return "dtype", f"The output is {answer.output.dtype} where the query is {dtype}."
    if answer.weights is not None:
        right = (batch, queries, keys) if conventions.weights == "averaged" else (batch, heads, queries, keys)
        if tuple(answer.weights.shape) != right:
            return "shape", f"The weights are {list(answer.weights.shape)} where {list(right)} is right."
    return None
