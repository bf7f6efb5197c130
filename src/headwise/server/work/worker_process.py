"""A process of its own for work that can be called off: it is told what to do on standard input, and tells how far it is, line by line.

{"kind": "check", "subject": "torch_sdpa", "level": "quick"}     in
{"doing": "M2 every row of weights is a softmax"}                out, as often as there is something to tell
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
Tell = Callable[..., None]


def main() -> int:
    """Do what standard input asks for; whatever the work prints goes to standard error."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.readline())

    def tell(**words: Any) -> None:
        lines.write(json.dumps(words) + "\n")
        lines.flush()

    try:
        tell(result=DO[asked["kind"]](asked, tell))
    except HeadwiseError as error:
        tell(error={"kind": type(error).__name__, "message": str(error)})
    return 0


def check(asked: dict[str, Any], tell: Tell) -> Any:
    """A report on a subject."""
    from headwise.conformance.check import check as run

    sys.path.insert(0, "")  # a subject that was named at start may be a module of the folder that the server was started in
    report = run(asked["subject"], level=asked["level"], timeout=TIMEOUT, told=lambda doing: tell(doing=doing))
    plain = report.to_plain()
    return {**plain, "failures": [{**told, "call": call(failure)} for told, failure in zip(plain["failures"], report.failures, strict=True)]}


def call(failure: "Failure") -> dict[str, str]:
    """What the subject was called with, in words: sizes and options, how, and every tensor that is short enough to be read."""
    from headwise.conformance.report.report_text import asked, sizes, tensors

    found = failure.finding
    told = {"input": sizes(found.problem), "called": asked(found.how), **tensors(found.problem)}
    return {name: words for name, words in told.items() if words}


def kills(asked: dict[str, Any], tell: Tell) -> Any:
    """The kill matrix, made anew."""
    from headwise.catalog import entries
    from headwise.conformance.mutations.kill_matrix import attack, cores
    from headwise.render.results.kill_matrix_table import as_data

    names = asked.get("attacks")
    done, total = 0, len(names or entries("headwise.conformance.mutations")) + (not names)

    def told(name: str) -> None:
        nonlocal done
        done += 1
        tell(done=done, of=total, doing=name)

    return as_data(attack(names, processes=min(2, cores()) if names is None else 1, told=told))


DO = {"check": check, "kills": kills}

if __name__ == "__main__":
    sys.exit(main())
