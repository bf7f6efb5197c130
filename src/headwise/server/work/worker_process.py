"""A process for work that can be cancelled: it reads its request from standard input, and reports its progress line by line.

{"kind": "check", "subject": "torch_sdpa", "level": "quick"}     in
{"doing": "M2 every row of weights is a softmax"}                out, for every step
{"result": {...}}  or  {"error": {"kind": …, "message": …}}      out, at the end
"""

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError

if TYPE_CHECKING:
    from headwise.conformance.report.report import Failure

TIMEOUT = 30.0  # seconds that one call of a subject may take
Send = Callable[..., None]


def main() -> int:
    """Do what standard input requests; whatever the work prints goes to standard error."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())

    def send(**message: Any) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    try:
        send(result=WORK[request["kind"]](request, send))
    except HeadwiseError as error:
        send(error={"kind": type(error).__name__, "message": str(error)})
    return 0


def check(request: dict[str, Any], send: Send) -> dict[str, Any]:
    """The report on a subject."""
    from headwise.conformance.check import check as run

    sys.path.insert(0, "")  # a subject that was named at start may be a module in the folder that the server was started in
    report = run(request["subject"], level=request["level"], timeout=TIMEOUT, progress=lambda stage, done, total: send(doing=stage))
    plain = report.to_plain()
    return {**plain, "failures": [{**data, "call": call(failure)} for data, failure in zip(plain["failures"], report.failures, strict=True)]}


def call(failure: "Failure") -> dict[str, str]:
    """What the subject was called with, as text: sizes and options, how, and every tensor that is short enough to be read."""
    from headwise.conformance.report.report_text import call_description, sizes, tensors

    finding = failure.finding
    parts = {"input": sizes(finding.problem), "called": call_description(finding.mode), **tensors(finding.problem)}
    return {name: text for name, text in parts.items() if text}


def kill_matrix(request: dict[str, Any], send: Send) -> dict[str, Any]:
    """The kill matrix, recomputed."""
    from headwise.conformance.kill_matrix import attack, cores
    from headwise.render.results.kill_matrix_table import as_data

    names = request.get("attacks")

    def report(name: str, done: int, total: int | None) -> None:
        send(done=done, of=total, doing=name)

    return as_data(attack(names, processes=min(2, cores()) if names is None else 1, progress=report))


WORK = {"check": check, "kill_matrix": kill_matrix}

if __name__ == "__main__":
    sys.exit(main())
