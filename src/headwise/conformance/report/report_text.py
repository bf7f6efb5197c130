"""A report in words, as JSON, and as JUnit XML."""

import json
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from headwise.axes import Tensor
from headwise.conformance.adapters.convention_probe import Stated
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.source_code import written
from headwise.conformance.report.report import Failure, Report

SHOWN = 64  # numbers of a tensor that are worth printing


def to_json(report: Report) -> str:
    """Strings, numbers, lists."""
    return json.dumps(report.to_plain(), indent=2, allow_nan=False)


def to_text(report: Report) -> str:
    """What a terminal shows."""
    return "\n".join(_lines(report))


def headline(report: Report) -> str:
    """The verdict in a line."""
    wrong = sum(failure.severity == "wrong" for failure in report.failures)
    fragile = len(report.failures) - wrong
    what = "passed" if report.passed else "nothing could be tried" if not report.held and not report.failures else f"{wrong} wrong, {fragile} fragile"
    return f"{report.subject}: {what}; {len(report.held)} laws hold on {sum(report.held.values())} problems; {report.calls} calls in {report.seconds:.1f} s"


def _lines(report: Report) -> Iterator[str]:
    yield headline(report)
    yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    for n, failure in enumerate(report.failures, 1):
        yield ""
        yield from _failure(n, failure)
    noted = [finding for finding in report.findings if finding.severity == "convention"]
    if noted:
        yield from ("", "noted, no failure")
        yield from (f"  {finding.law}: {finding.statement} {finding.finding.why}" for finding in noted)
    if report.conventions:
        yield from ("", "conventions, no failures")
        yield from (f"  {stated.name} = {stated.value}  ({stated.known}) {stated.meaning}{in_view(stated)}" for stated in report.conventions)
    if report.not_tested:
        yield from ("", "not tested")
        yield from (f"  {name}: {why}" for name, why in report.not_tested.items())


def _failure(n: int, failure: Failure) -> Iterator[str]:
    code = f" {failure.code}" if failure.code else ""
    yield f"{n}. {failure.severity}{code}: {failure.statement}"
    rows = facts(failure)
    yield from (f"   {name:<11}{value}" for name, value in rows.items())
    yield "   test"
    yield from (f"      {line}".rstrip() for line in failure.test.splitlines())


def facts(failure: Failure) -> dict[str, str]:
    """All that is to be known of a failure but its test, by the word in front of it."""
    found, likely = failure.finding, failure.likely
    rows = {"input": sizes(found.problem), "called": asked(found.how), **tensors(found.problem), **sides(failure)}
    rows |= {"why": found.why, "smallest": failure.smallest, "falls too": ", ".join(failure.also), "seen in": "; ".join(failure.seen_in)}
    if likely is not None:
        rows |= {"looks like": f"{likely.lie} ({likely.attack})", "thread": "  ".join(likely.threads)}
    return {name: value for name, value in rows.items() if value}


def asked(how: How) -> str:
    """How the subject was called, where that is not the plainest way."""
    said = {
        "by the path " + repr(how.path): how.path,
        "with weights": how.weights,
        "in training": how.training,
        "for gradients": how.upstream is not None and not how.alone,
        f"for the gradient of {how.alone} alone": how.alone,
        "with gradients enabled": how.grad and how.upstream is None,
    }
    return ", ".join(words for words, so in said.items() if so)


def in_view(stated: Stated) -> str:
    """Of which view a convention is, where it is not of all."""
    return f" [{stated.of}]" if stated.of else ""


def sizes(problem: Problem | LayerProblem) -> str:
    """The lengths of the axes and the options that are no tensors.

    Example:
        >>> import torch
        >>> sizes(Problem(torch.ones(1, 2, 3, 4), torch.ones(1, 1, 5, 4), torch.ones(1, 1, 5, 6), causal=True))
        'B 1 · H 2 · G 1 · T 3 · S 5 · D 4 · E 6   causal=True'
    """
    batch, heads, queries, keys = problem.shape
    if isinstance(problem, LayerProblem):
        model, _, width = problem.params.w_q.shape
        axes = {"B": batch, "H": heads, "G": problem.params.w_k.shape[1], "T": queries, "S": keys, "M": model, "D": width, "E": problem.params.w_v.shape[2]}
    else:
        axes = {"B": batch, "H": heads, "G": problem.key.shape[1], "T": queries, "S": keys, "D": problem.query.shape[3], "E": problem.value.shape[3]}
    options = [f"{name}={written(value)}" for name, value in problem.options.items() if not isinstance(value, Tensor)]
    dtype = str(next(iter(problem.floats().values())).dtype).removeprefix("torch.")
    parts = [" · ".join(f"{name} {length}" for name, length in axes.items()), "" if dtype == "float32" else dtype, " ".join(options)]
    return "   ".join(part for part in parts if part)


def tensors(problem: Problem | LayerProblem) -> dict[str, str]:
    """Every tensor that is short enough to be read."""
    found = {**problem.floats(), **({} if problem.mask is None else {"mask": problem.mask})}
    return {name: shown(tensor) for name, tensor in found.items()}


def sides(failure: Failure) -> dict[str, str]:
    """What was got and what is right: whole where it is short, else the worst number."""
    found = failure.finding
    if found.got is None or found.right is None:
        return {}
    if found.got.numel() <= SHOWN and found.right.numel() <= SHOWN:
        got, right = _apart(shown, found.got, found.right)
        return {"got": got, "right": right}
    got, right = _apart(lambda x, digits: written_short(float(x[found.where]), digits), found.got, found.right)
    return {"got": f"{got} at {list(found.where)}", "right": right}


def _apart(write: Callable[[Tensor, int], str], got: Tensor, right: Tensor) -> tuple[str, str]:
    """Both with 6 digits, or with as many more as it takes to tell them apart."""
    ways = ((write(got, digits), write(right, digits)) for digits in (6, 9, 12, 17))
    found = ("", "")
    for found in ways:
        if found[0] != found[1]:
            break
    return found


def shown(tensor: Tensor, digits: int = 6) -> str:
    """Its numbers, or its shape where they are too many."""
    if tensor.numel() > SHOWN:
        return f"{list(tensor.shape)} numbers, see the test"
    return written_short(tensor.detach().cpu().tolist(), digits)


def written_short(value: object, digits: int = 6) -> str:
    """Nested numbers with so many digits at most."""
    if isinstance(value, list):
        return f"[{', '.join(written_short(one, digits) for one in value)}]"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def to_junit(report: Report) -> str:
    """A test suite: a case for every law and every further failure of one; conventions as properties, what was not tested as skipped."""
    told = [*((name, "", "", "") for name in report.held), *_fallen(report)]
    failures = sum(bool(kind) for _, kind, _, _ in told)
    counts = {"tests": len(told) + len(report.not_tested), "failures": failures, "errors": 0, "skipped": len(report.not_tested)}
    suite = ElementTree.Element("testsuite", {name: str(count) for name, count in counts.items()}, name=report.subject, time=f"{report.seconds:.3f}")
    properties = ElementTree.SubElement(suite, "properties")
    for stated in report.conventions:
        ElementTree.SubElement(properties, "property", name=f"convention.{stated.name}{in_view(stated)}", value=str(stated.value))
    for name, kind, message, text in told:
        case = ElementTree.SubElement(suite, "testcase", classname=report.subject, name=name)
        if kind:
            ElementTree.SubElement(case, "failure", type=kind, message=message).text = _legal(text)
    for name, why in report.not_tested.items():
        case = ElementTree.SubElement(suite, "testcase", classname=report.subject, name=name)
        ElementTree.SubElement(case, "skipped", message=why)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _fallen(report: Report) -> Iterator[tuple[str, str, str, str]]:
    """Name, kind, message and text of every case that is no law that holds; the kind is "" where it is no failure."""
    names: set[str] = set()
    for failure in report.findings:
        name = next(name for n in range(1, len(report.findings) + 2) if (name := failure.law if n == 1 else f"{failure.law} {n}") not in names)
        names.add(name)
        kind = "" if failure.severity == "convention" else failure.severity
        yield name, kind, failure.statement, "\n".join(_failure(1, failure))
    for failure in report.failures:
        for law in failure.also:
            if law not in names:
                names.add(law)
                yield law, failure.severity, f"It falls with {failure.law}.", failure.finding.why


def _legal(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(character for character in text if character in "\n\t" or ord(character) >= 32)
