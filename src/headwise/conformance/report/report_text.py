"""A report as text, as JSON, and as JUnit XML."""

import json
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from headwise.axes import Tensor
from headwise.conformance.adapters.convention_probe import ResolvedConvention
from headwise.conformance.answer import CallMode
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.source_code import to_source
from headwise.conformance.report.report import Failure, Report

SHOWN = 64  # numbers of a tensor that are worth printing


def to_json(report: Report) -> str:
    """The report as JSON."""
    return json.dumps(report.to_plain(), indent=2, allow_nan=False)


def to_text(report: Report) -> str:
    """The report as a terminal shows it."""
    return "\n".join(_lines(report))


def headline(report: Report) -> str:
    """The verdict in one line."""
    wrong = sum(failure.severity == "wrong" for failure in report.failures)
    fragile = len(report.failures) - wrong
    if report.passed:
        verdict = "passed"
    elif not report.problems_passed and not report.failures:
        verdict = "nothing could be tested"
    else:
        verdict = f"{wrong} wrong, {fragile} fragile"
    passed = f"{len(report.problems_passed)} invariants pass on {sum(report.problems_passed.values())} problems"
    return f"{report.subject}: {verdict}; {passed}; {report.calls} calls in {report.seconds:.1f} s"


def _lines(report: Report) -> Iterator[str]:
    yield headline(report)
    yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    for n, failure in enumerate(report.failures, 1):
        yield ""
        yield from _failure(n, failure)
    noted = [finding for finding in report.findings if finding.severity == "convention"]
    if noted:
        yield from ("", "noted, not failures")
        yield from (f"  {finding.invariant}: {finding.statement} {finding.finding.why}" for finding in noted)
    if report.conventions:
        yield from ("", "conventions, not failures")
        yield from (f"  {one.name} = {one.value}  ({one.source}) {one.meaning}{view_suffix(one)}" for one in report.conventions)
    if report.not_tested:
        yield from ("", "not tested")
        yield from (f"  {name}: {why}" for name, why in report.not_tested.items())


def _failure(n: int, failure: Failure) -> Iterator[str]:
    code = f" {failure.code}" if failure.code else ""
    yield f"{n}. {failure.severity}{code}: {failure.statement}"
    rows = failure_rows(failure)
    yield from (f"   {name:<11}{value}" for name, value in rows.items())
    yield "   test"
    yield from (f"      {line}".rstrip() for line in failure.test.splitlines())


def failure_rows(failure: Failure) -> dict[str, str]:
    """Everything about a failure except its test, by the label of each row."""
    found, known = failure.finding, failure.diagnosis
    rows = {"input": sizes(found.problem), "called": call_description(found.mode), **tensors(found.problem), **got_and_expected(failure)}
    rows |= {"why": found.why, "smallest": failure.smallest, "also fails": ", ".join(failure.also), "seen in": "; ".join(failure.views)}
    if known is not None:
        rows |= {"looks like": f"{known.description} ({known.mutation})", "thread": "  ".join(known.threads)}
    return {name: value for name, value in rows.items() if value}


def call_description(mode: CallMode) -> str:
    """How the subject was called, in words; "" for a plain call."""
    parts = {
        f"on the path {mode.path!r}": mode.path,
        "with weights": mode.weights,
        "in training": mode.training,
        "for gradients": mode.upstream is not None and not mode.only_grad_of,
        f"for the gradient of {mode.only_grad_of} only": mode.only_grad_of,
        "with gradients enabled": mode.grad and mode.upstream is None,
    }
    return ", ".join(text for text, applies in parts.items() if applies)


def view_suffix(convention: ResolvedConvention) -> str:
    """The view that a convention belongs to; "" where it belongs to all."""
    return f" [{convention.view}]" if convention.view else ""


def sizes(problem: AnyProblem) -> str:
    """The lengths of the axes, the dtype, and the options that are not tensors.

    Example:
        >>> import torch
        >>> from headwise.conformance.problems.problem import Problem
        >>> sizes(Problem(torch.ones(1, 2, 3, 4), torch.ones(1, 1, 5, 4), torch.ones(1, 1, 5, 6), causal=True))
        'B 1 · H 2 · G 1 · T 3 · S 5 · D 4 · E 6   causal=True'
    """
    batch, heads, queries, keys = problem.shape
    if isinstance(problem, LayerProblem):
        d_model, _, head_dim = problem.params.w_q.shape
        axes = {
            "B": batch,
            "H": heads,
            "G": problem.params.w_k.shape[1],
            "T": queries,
            "S": keys,
            "M": d_model,
            "D": head_dim,
            "E": problem.params.w_v.shape[2],
        }
    else:
        axes = {"B": batch, "H": heads, "G": problem.key.shape[1], "T": queries, "S": keys, "D": problem.query.shape[3], "E": problem.value.shape[3]}
    options = [f"{name}={to_source(value)}" for name, value in problem.options.items() if not isinstance(value, Tensor)]
    dtype = str(problem.dtype).removeprefix("torch.")
    parts = [" · ".join(f"{name} {length}" for name, length in axes.items()), "" if dtype == "float32" else dtype, " ".join(options)]
    return "   ".join(part for part in parts if part)


def tensors(problem: AnyProblem) -> dict[str, str]:
    """Every tensor by name, or its shape where it is too long to print."""
    found = {**problem.float_tensors(), **({} if problem.mask is None else {"mask": problem.mask})}
    return {name: tensor_text(tensor) for name, tensor in found.items()}


def got_and_expected(failure: Failure) -> dict[str, str]:
    """The actual and the expected result: whole where they are short, else the worst number."""
    found = failure.finding
    if found.got is None or found.expected is None:
        return {}
    if found.got.numel() <= SHOWN and found.expected.numel() <= SHOWN:
        got, expected = _distinct(tensor_text, found.got, found.expected)
        return {"got": got, "expected": expected}
    got, expected = _distinct(lambda x, digits: numbers_text(float(x[found.where]), digits), found.got, found.expected)
    return {"got": f"{got} at {list(found.where)}", "expected": expected}


def _distinct(text: Callable[[Tensor, int], str], got: Tensor, expected: Tensor) -> tuple[str, str]:
    """Both with 6 digits, or with as many more as it takes to show that they differ."""
    found = ("", "")
    for digits in (6, 9, 12, 17):
        found = text(got, digits), text(expected, digits)
        if found[0] != found[1]:
            break
    return found


def tensor_text(tensor: Tensor, digits: int = 6) -> str:
    """The numbers of a tensor, or its shape where there are too many."""
    if tensor.numel() > SHOWN:
        return f"{list(tensor.shape)} numbers, see the test"
    return numbers_text(tensor.detach().cpu().tolist(), digits)


def numbers_text(value: object, digits: int = 6) -> str:
    """Nested numbers with at most this many significant digits."""
    if isinstance(value, list):
        return f"[{', '.join(numbers_text(one, digits) for one in value)}]"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def to_junit(report: Report) -> str:
    """A test suite with one case per invariant and one for every further failure of it; conventions are properties, and what was not tested is skipped."""
    found = [*((name, "", "", "") for name in report.problems_passed), *_failed_cases(report)]
    failures = sum(bool(kind) for _, kind, _, _ in found)
    counts = {"tests": len(found) + len(report.not_tested), "failures": failures, "errors": 0, "skipped": len(report.not_tested)}
    suite = ElementTree.Element("testsuite", {name: str(count) for name, count in counts.items()}, name=report.subject, time=f"{report.seconds:.3f}")
    properties = ElementTree.SubElement(suite, "properties")
    for convention in report.conventions:
        ElementTree.SubElement(properties, "property", name=f"convention.{convention.name}{view_suffix(convention)}", value=str(convention.value))
    for name, kind, message, text in found:
        case = ElementTree.SubElement(suite, "testcase", classname=report.subject, name=name)
        if kind:
            ElementTree.SubElement(case, "failure", type=kind, message=message).text = _legal(text)
    for name, why in report.not_tested.items():
        case = ElementTree.SubElement(suite, "testcase", classname=report.subject, name=name)
        ElementTree.SubElement(case, "skipped", message=why)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _failed_cases(report: Report) -> Iterator[tuple[str, str, str, str]]:
    """Name, kind, message and text of every case of a finding; the kind is "" where it is no failure."""
    names: set[str] = set()
    for failure in report.findings:
        name = next(name for n in range(1, len(report.findings) + 2) if (name := failure.invariant if n == 1 else f"{failure.invariant} {n}") not in names)
        names.add(name)
        kind = "" if failure.severity == "convention" else failure.severity
        yield name, kind, failure.statement, "\n".join(_failure(1, failure))
    for failure in report.failures:
        for invariant in failure.also:
            if invariant not in names:
                names.add(invariant)
                yield invariant, failure.severity, f"It fails for the same reason as {failure.invariant}.", failure.finding.why


def _legal(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(character for character in text if character in "\n\t" or ord(character) >= 32)
