"""A process of its own for work that can be called off: it is told what to do on standard input, and tells how far it is, line by line.

{"kind": "check", "subject": "torch_sdpa", "level": "quick"}     in
{"doing": "M2 every row of weights is a softmax"}                out, as often as there is something to tell
{"result": {...}}  or  {"error": {"kind": …, "message": …}}      out, at the end
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from headwise.errors import HeadwiseError

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
    from headwise.subjects.check import check as run

    sys.path.insert(0, "")  # a subject that was named at start may be a module of the folder that the server was started in
    return run(asked["subject"], level=asked["level"], timeout=TIMEOUT, told=lambda doing: tell(doing=doing)).to_plain()


def kills(asked: dict[str, Any], tell: Tell) -> Any:
    """The kill matrix, made anew."""
    from headwise.catalog import entries
    from headwise.proof.kill_matrix import attack, cores
    from headwise.show.kills import as_data

    names = asked.get("attacks")
    done, total = 0, len(names or entries("headwise.proof.attacks")) + (not names)

    def told(name: str) -> None:
        nonlocal done
        done += 1
        tell(done=done, of=total, doing=name)

    return as_data(attack(names, processes=min(2, cores()) if names is None else 1, told=told))


DO = {"check": check, "kills": kills}

if __name__ == "__main__":
    sys.exit(main())
