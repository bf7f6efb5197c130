"""What an invariant of any attention that can be called is: a sentence, and a way to judge it on one problem."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from headwise.conformance.report.finding import Finding

Level = Literal["quick", "full"]


@dataclass(frozen=True)
class Law:
    """An invariant. One file in `invariants/` each; its name is the name of the file.

    `judge(subject, problem)` looks at one problem and makes what else it needs (the same with a hidden key changed, say) from
    it by a stated rule, so that a smaller problem can be put in its place: that is how a failure is shrunk. It gives None
    where the law holds or says nothing about the problem. `problems(subject, level)` are the inputs that it is tried on.

    Attributes:
        code: its number in the catalogue of invariants: "I06".
        statement: what holds, in a sentence.
        formula: the same in symbols.
        when: where it says something, in words.
        needs: what a subject must honour for the law to say anything.
        levels: of subjects that it can judge.
        asks_again: it asks the same more than once, and wants to be answered anew each time.
    """

    code: str
    statement: str
    formula: str
    when: str
    judge: Callable[[Any, Any], Finding | None]
    problems: Callable[[Any, Level], Iterable[Any]]
    needs: frozenset[str] = frozenset()
    levels: tuple[Literal["call", "layer"], ...] = ("call",)
    asks_again: bool = False
