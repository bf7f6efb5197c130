"""What an attack is: a lie told at some step of the way, and who must catch it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attack:
    """One way to get attention wrong. One file in `attacks/` each; its name is the name of the file.

    A way is a table of steps, each a function; the attack puts its own in place of some, and all else goes on as before.

    Attributes:
        lie: what is claimed, in a sentence.
        instead: by name of the step, the function that takes its place and its arguments.
        caught_by: file names of the invariants that must fall, and no others.
        blind_when: where it does no harm, in words.
        seen_in: a public thread where the like happened.
    """

    lie: str
    instead: Mapping[str, Callable[..., Any]]
    caught_by: tuple[str, ...]
    blind_when: str
    seen_in: str = ""
