"""A failure as a test function that can be pasted, and fails until the fault is fixed."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from headwise.conformance.adapters.attention_call import SourceCall
from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.rounding import tolerances
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.source_code import to_source
from headwise.conformance.problems.subject import Subject
from headwise.conformance.sandbox.watched_subject import CALL_RULES


def pytest_function(name: str, invariant: str, statement: str, judged: AnyProblem, finding: Finding, subject: Subject, arguments: Mapping[str, Any]) -> str:
    """A test that calls the subject as its users do where one output shows the fault; else one that checks the invariant again.

    Args:
        name: the subject, as `hw.check` resolves it.
        judged: the problem on which the invariant was checked.
        arguments: the arguments with which the subject was made.
    """
    call = _source_call(subject, finding)
    title = f"test_{_identifier(name.rpartition(':')[2])}_{invariant}"
    if call is not None and isinstance(finding.problem, Problem):
        return _by_call(title, statement, call, finding.problem, subject)
    checked = invariant if type(judged) in (Problem, LayerProblem) else "error_within_rounding"  # a result computed by hand is no part of a plain problem
    return _by_invariant(title, name, checked, statement, judged, finding.mode if invariant in CALL_RULES else PLAIN, arguments)


def _source_call(subject: Subject, finding: Finding) -> SourceCall | None:
    """The call, where it alone shows the fault: an output that is not the one that the formula gives."""
    problem = finding.problem
    as_source: Callable[[Problem, CallMode], SourceCall] | None = getattr(subject, "as_source", None)
    if as_source is None or isinstance(problem, LayerProblem) or finding.mode != PLAIN or finding.got is None or finding.expected is None:
        return None
    expected = problem.expected(subject.conventions).output
    if finding.expected.shape != expected.shape or not torch.allclose(finding.expected.double(), expected, rtol=1e-4, atol=1e-6, equal_nan=True):
        return None
    if torch.allclose(finding.got.double(), expected, rtol=0, atol=_largest_tolerance(problem, subject), equal_nan=True):
        return None  # two calls differ, and this one is right
    return as_source(problem, finding.mode)


def _largest_tolerance(problem: Problem, subject: Subject) -> float:
    """The largest tolerance of any number of the output."""
    return float(tolerances(problem, subject.conventions).output.nan_to_num().max())


def _correct_with_gradients(subject: Subject, problem: Problem) -> bool:
    """Whether the fault disappears with gradients enabled, as they are in a test by default."""
    try:
        output = subject.attend(problem, CallMode(grad=True)).output.detach().double().cpu()
    except (RuntimeError, NotImplementedError):
        return False
    expected = problem.expected(subject.conventions).output
    return output.shape == expected.shape and torch.allclose(output, expected, rtol=0, atol=_largest_tolerance(problem, subject), equal_nan=True)


def _by_call(title: str, statement: str, call: SourceCall, problem: Problem, subject: Subject) -> str:
    expected = problem.expected(subject.conventions).output.to(problem.dtype)
    without_gradients = _correct_with_gradients(subject, problem)
    tensors = [f"    {name} = {to_source(tensor)}" for name, tensor in call.tensors.items()]
    lines = [
        "import torch",
        *call.imports,
        "",
        "",
        f"def {title}():",
        f'    """{statement}"""',
        *tensors,
        *(["    with torch.no_grad():"] if without_gradients else []),
        f"    {'    ' if without_gradients else ''}output = {call.call}",
        f"    expected = {to_source(expected)}",
        f"    torch.testing.assert_close(output, expected, rtol=0, atol={_largest_tolerance(problem, subject):.2g}, equal_nan=True)",
    ]
    return "\n".join(lines) + "\n"


def _by_invariant(title: str, name: str, invariant: str, statement: str, judged: AnyProblem, mode: CallMode, arguments: Mapping[str, Any]) -> str:
    base = LayerProblem if isinstance(judged, LayerProblem) else Problem
    imports = {f"from {base.__module__} import {base.__name__}"}
    if isinstance(judged, LayerProblem):
        imports |= {f"from {type(part).__module__} import {type(part).__name__}" for part in (judged.params, judged.position)}
    given_mode = "" if to_source(mode) == to_source(PLAIN) else f", mode={to_source(mode)}"
    imports |= {f"from {CallMode.__module__} import CallMode"} if given_mode else set()
    given = "".join(f", {key}={value!r}" for key, value in arguments.items())
    lines = [
        "import torch",
        "",
        "import headwise as hw",
        *sorted(imports),
        "",
        "",
        f"def {title}():",
        f'    """{statement}"""',
        f"    problem = {judged!r}",
        f"    hw.Case({invariant!r}, problem{given_mode}).check({name!r}{given})",
    ]
    return "\n".join(lines) + "\n"


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower() or "attention"
