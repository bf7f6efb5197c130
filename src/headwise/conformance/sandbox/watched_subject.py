"""A subject whose every call is watched: what it raises, prints, changes or returns in a wrong shape is recorded, and the check goes on."""

import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

import headwise
from headwise.axes import Tensor
from headwise.conformance.adapters.call_guard import ProcessSettings, captured_output, printable
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.comparison.finding import Finding, Severity
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.subject import Subject
from headwise.errors import InvalidReturn, NotSupported, SubjectFailure

CALL_RULES: Mapping[str, tuple[Severity, str]] = MappingProxyType(
    {
        "raises": ("wrong", "A call returns, or refuses with NotImplementedError what it cannot compute."),
        "hangs": ("wrong", "A call returns within the time limit."),
        "crashes": ("wrong", "The process survives a call."),
        "shape": ("wrong", "The output is [B, H, T, E] and the attention weights are [B, H, T, S]."),
        "dtype": ("wrong", "The output has the dtype and the device of the query."),
        "changes_inputs": ("wrong", "A call does not change its inputs."),
        "changes_settings": ("wrong", "A call does not change the default dtype."),
        "draws_random_numbers": ("convention", "Random numbers are drawn for dropout only."),
        "prints": ("convention", "A call prints nothing."),
    }
)
"""What every call must observe beside its result: the severity of breaking it, and the rule in a sentence."""

PACKAGE = Path(headwise.__file__).resolve().parent
DRAW_EVERY = 64  # calls after which random numbers are drawn, so that a subject that resets the seed at every call is noticed


@dataclass(eq=False)
class WatchedSubject:
    """The same subject, with every call watched.

    Attributes:
        calls: the number of calls.
        answers: the number of calls whose answer could be judged.
        noted: the first finding of each rule that a call broke without failing to answer.
        refused: the number of calls that it refused, by reason.
    """

    subject: Subject
    calls: int = 0
    answers: int = 0
    noted: dict[str, Finding] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> "WatchedSubject":
        """A subject that has never been called, where one can be made (a module is copied; the state of a function cannot be), with the same records."""
        copy = getattr(self.subject, "uncalled_copy", None)
        return WatchedSubject(self.subject if copy is None else copy(), noted=self.noted, refused=self.refused)

    @property
    def name(self) -> str:
        """The subject's name."""
        return self.subject.name

    @property
    def level(self) -> Literal["call", "layer"]:
        """The subject's level."""
        return self.subject.level

    @property
    def supports(self) -> frozenset[str]:
        """What the subject supports."""
        return self.subject.supports

    @property
    def conventions(self) -> Conventions:
        """The subject's conventions."""
        return self.subject.conventions

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The subject's dtypes."""
        return self.subject.dtypes

    @property
    def device(self) -> torch.device:
        """The subject's device."""
        return self.subject.device

    @property
    def paths(self) -> tuple[str, ...]:
        """The subject's paths."""
        return self.subject.paths

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        """The subject's answer.

        Raises:
            NotSupported: the subject refuses the problem, by this or by NotImplementedError.
            SubjectFailure: it raised, or what it returned is no answer.
        """
        self.calls += 1
        if self.calls % DRAW_EVERY == 1:
            torch.rand(())
        tensors, settings, rng_state = TensorSnapshot(problem), ProcessSettings(), torch.get_rng_state()
        with captured_output() as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = self.subject.attend(problem, mode)
            except NotImplementedError as refusal:
                why = printable(str(refusal)) or type(refusal).__name__
                self.refused[why] = self.refused.get(why, 0) + 1
                raise NotSupported(why) from None
            except InvalidReturn as error:
                raise SubjectFailure("shape", printable(str(error)), mode, problem) from None
            except SubjectFailure as failure:
                raise SubjectFailure(failure.rule, str(failure), mode, problem) from None
            except Exception as error:  # noqa: BLE001 - whatever foreign code raises is reported
                raise SubjectFailure("raises", error_text(error), mode, problem) from None
        for rule, finding in getattr(self.subject, "noted", {}).items():
            self.noted.setdefault(rule, finding)
        if tensors.changed():
            tensors.restore()
            self.note("changes_inputs", problem, mode, "The tensors that were passed in hold other numbers after the call.")
        if settings.changed():
            self.note("changes_settings", problem, mode, f"After the call the process has {settings.changed()}.")
            settings.restore()
        if not (mode.training and problem.dropout) and not torch.equal(rng_state, torch.get_rng_state()):
            self.note("draws_random_numbers", problem, mode, "The call advanced the state of torch's random number generator.")
        if printed.getvalue().strip():
            self.note("prints", problem, mode, f"It printed {printable(printed.getvalue().strip().splitlines()[0][:80])!r}.")
        broken = _wrong_shape_or_dtype(answer, problem, self.subject.conventions)
        if broken is not None:
            rule, why = broken
            raise SubjectFailure(rule, why, mode, problem)
        self.answers += 1
        return answer

    def note(self, rule: str, problem: AnyProblem, mode: CallMode, why: str) -> None:
        """Record that a call broke a rule; the first finding of each rule only."""
        self.noted.setdefault(rule, Finding(CALL_RULES[rule][0], problem, why, mode=mode, invariant=rule))


class TensorSnapshot:
    """The bytes of every tensor of a problem, to be compared and restored."""

    def __init__(self, problem: AnyProblem) -> None:
        tensors = [*problem.float_tensors().values(), *([] if problem.mask is None else [problem.mask])]
        self.kept = [(memory, memory.clone()) for memory in map(_bytes, tensors)]

    def changed(self) -> bool:
        """Whether any byte has changed since."""
        return not all(torch.equal(now, before) for now, before in self.kept)

    def restore(self) -> None:
        """Undo the changes."""
        for now, before in self.kept:
            now.copy_(before)


def _bytes(tensor: Tensor) -> Tensor:
    """All the memory behind a tensor, whatever its strides."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.detach().untyped_storage())


def error_text(error: BaseException) -> str:
    """An exception in a sentence, with the line that raised it: the innermost one that is not headwise's own.

    Example:
        >>> error_text(KeyError("no rule"))
        "It raises KeyError: 'no rule'."
    """
    message = printable((str(error).strip().splitlines() or ["no message"])[0][:200].rstrip("."))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not Path(frame.filename).resolve().is_relative_to(PACKAGE)]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"It raises {type(error).__name__}: {message}{place}."


def _wrong_shape_or_dtype(answer: Answer, problem: AnyProblem, conventions: Conventions) -> tuple[str, str] | None:
    """The rule that the answer breaks, and how, in a sentence; None where it is as it should be."""
    batch, heads, queries, keys = problem.shape
    if isinstance(problem, LayerProblem):
        expected, inputs = (batch, queries, problem.params.w_o.shape[2]), problem.x
    else:
        expected, inputs = (batch, heads, queries, problem.value.shape[3]), problem.query
    if tuple(answer.output.shape) != expected:
        return "shape", f"The output is {list(answer.output.shape)} where {list(expected)} is expected."
    if answer.output.device.type != inputs.device.type:
        return "dtype", f"The output is on {answer.output.device} where the inputs are on {inputs.device}."
    if answer.output.dtype != inputs.dtype:
        return "dtype", f"The output is {answer.output.dtype} where the query is {inputs.dtype}."
    if answer.weights is not None:
        expected = (batch, queries, keys) if conventions.weights == "averaged" else (batch, heads, queries, keys)
        if tuple(answer.weights.shape) != expected:
            return "shape", f"The attention weights are {list(answer.weights.shape)} where {list(expected)} is expected."
    return None
