"""What an attack on any attention that can be called is: a lie told at some step of the way, and who must catch it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from headwise.conformance.mutations.mutable_attention import CallWay
from headwise.conformance.mutations.mutable_layer import LayerWay

Steps = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Lie:
    """One way to get attention wrong. One file in `attacks/` each; its name is the name of the file.

    Attributes:
        code: its number in the catalogue of faults, where it has one: "M29".
        lie: what is claimed, in a sentence.
        told: each way of telling it, by name: steps by name, and the function that takes the place of each.
        caught_by: file names of the laws that must catch it, however it is told; () for what is no fault, and must catch nobody.
        level: of the way on which it is told.
        blind_when: where it does no harm, in words.
        seen_in: public threads where the like happened.
        subject: changes to the subject that tells it: what it honours or declares.
    """

    code: str
    lie: str
    told: Mapping[str, Steps]
    caught_by: tuple[str, ...]
    level: Literal["call", "layer"] = "call"
    blind_when: str = ""
    seen_in: tuple[str, ...] = ()
    subject: Mapping[str, Any] = field(default_factory=dict)

    def subjects(self) -> dict[str, CallWay | LayerWay]:
        """A liar for each way of telling it."""
        way = CallWay if self.level == "call" else LayerWay
        return {name: way(deepcopy(dict(steps)), name=name, **self.subject) for name, steps in self.told.items()}
