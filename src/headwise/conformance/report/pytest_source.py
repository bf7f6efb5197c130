"""A failure as a test function, ready to be pasted, that fails until the fault is mended."""

import re
from collections.abc import Mapping
from typing import Any

import torch

from headwise.conformance.adapters.attention_call import Spelling
from headwise.conformance.adapters.subject import Subject
from headwise.conformance.oracles.rounding import allowed
from headwise.conformance.problems.answer import PLAINLY, How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.source_code import written
from headwise.conformance.report.finding import Finding
from headwise.conformance.sandbox.watched_subject import MANNERS


def pasted(name: str, law: str, statement: str, judged: Problem | LayerProblem, finding: Finding, subject: Subject, arguments: Mapping[str, Any]) -> str:
    """A test that calls the subject as its users do where that says all; else one that asks the law again.

    Args:
        name: of the subject, as `hw.check` finds it again.
        judged: the problem that the law was asked about.
        arguments: with which the subject was made.
    """
    spelling = _spelled(subject, finding)
    title = f"test_{_word(name.rpartition(':')[2])}_{law}"
    if spelling is not None:
        return _by_call(title, statement, spelling, finding.problem, subject)
    asked = law if type(judged) in (Problem, LayerProblem) else "error_stays_within_rounding"  # what was worked out on paper is no part of a plain problem
    return _by_law(title, name, asked, statement, judged, finding.how if law in MANNERS else PLAINLY, arguments)


def _spelled(subject: Subject, finding: Finding) -> Spelling | None:
    """The call, where it alone shows the fault: an output that is not what the formula gives."""
    problem, spelled = finding.problem, getattr(subject, "spelled", None)
    if spelled is None or isinstance(problem, LayerProblem) or finding.how != PLAINLY or finding.got is None or finding.right is None:
        return None
    right = problem.right(subject.conventions).output
    if finding.right.shape != right.shape or not torch.allclose(finding.right.double(), right, rtol=1e-4, atol=1e-6, equal_nan=True):
        return None
    if torch.allclose(finding.got.double(), right, rtol=0, atol=_room(problem, subject), equal_nan=True):
        return None  # what falls is that two calls differ
    return spelled(problem, finding.how)


def _room(problem: Problem, subject: Subject) -> float:
    """By how much the output may be off where it may be off most."""
    return float(allowed(problem, subject.conventions).output.nan_to_num().max())


def _right_with_gradients(subject: Subject, problem: Problem) -> bool:
    """Whether the fault goes away where gradients are kept, as they are in a test that says nothing of them."""
    try:
        output = subject.attend(problem, How(grad=True)).output.detach().double().cpu()
    except (RuntimeError, NotImplementedError):
        return False
    right = problem.right(subject.conventions).output
    return output.shape == right.shape and torch.allclose(output, right, rtol=0, atol=_room(problem, subject), equal_nan=True)


def _by_call(title: str, statement: str, spelling: Spelling, problem: Problem, subject: Subject) -> str:
    right = problem.right(subject.conventions).output.to(problem.query.dtype)
    quiet = _right_with_gradients(subject, problem)
    tensors = [f"    {name} = {written(tensor)}" for name, tensor in spelling.tensors.items()]
    lines = [
        "import torch",
        *spelling.imports,
        "",
        "",
        f"def {title}():",
        f'    """{statement}"""',
        *tensors,
        *(["    with torch.no_grad():"] if quiet else []),
        f"    {'    ' if quiet else ''}output = {spelling.call}",
        f"    expected = {written(right)}",
        f"    torch.testing.assert_close(output, expected, rtol=0, atol={_room(problem, subject):.2g}, equal_nan=True)",
    ]
    return "\n".join(lines) + "\n"


def _by_law(title: str, name: str, law: str, statement: str, judged: Problem | LayerProblem, how: How, arguments: Mapping[str, Any]) -> str:
    base = LayerProblem if isinstance(judged, LayerProblem) else Problem
    imports = {f"from {base.__module__} import {base.__name__}"}
    if isinstance(judged, LayerProblem):
        imports |= {f"from {type(part).__module__} import {type(part).__name__}" for part in (judged.params, judged.position)}
    said = "" if written(how) == written(PLAINLY) else f", how={written(how)}"
    imports |= {"from headwise.conformance.problems.answer import How"} if said else set()
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
        f"    hw.Case({law!r}, problem{said}).holds({name!r}{given})",
    ]
    return "\n".join(lines) + "\n"


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower() or "attention"
