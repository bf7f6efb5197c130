"""What a mutation is, and all of them by name."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from headwise.catalog import entries
from headwise.conformance.capabilities import Level
from headwise.conformance.mutations.mutable_attention import MutableAttention
from headwise.conformance.mutations.mutable_layer import MutableLayer

Steps = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Mutation:
    """One known way to get attention wrong. One file in `mutations/` each; its name is the name of the file.

    An attention is a table of steps, each a function; a mutation replaces some of them and leaves the rest as they are.

    Attributes:
        description: the fault, in a sentence.
        variants: each form of the fault by name: the steps that it replaces, by name.
        detected_by: names of the invariants that must fail in every variant; () for a control, which is correct and must fail none.
        level: which table of steps it changes: that of an exact trace, of an attention of q, k and v, or of a layer.
        code: its number in the list of faults, such as "M29"; "" where it has none.
        harmless_when: the condition under which the result is still correct, in words.
        reported_in: public issues about the same fault, as owner/name#number.
        overrides: attributes of the mutated subject that differ: what it supports, its conventions.
    """

    description: str
    variants: Mapping[str, Steps]
    detected_by: tuple[str, ...]
    level: Level = "call"
    code: str = ""
    harmless_when: str = ""
    reported_in: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def subjects(self) -> dict[str, MutableAttention | MutableLayer]:
        """The mutated implementation of every variant, by name; none at the level "exact", whose steps are replaced in `exact_trace`."""
        if self.level == "exact":
            return {}
        kind = MutableAttention if self.level == "call" else MutableLayer
        return {name: kind(deepcopy(dict(steps)), name=name, **self.overrides) for name, steps in self.variants.items()}


@cache
def mutations(*levels: Level) -> Mapping[str, Mutation]:
    """The mutations of these levels by name; all of them when no level is given.

    Example:
        >>> sorted(mutations("exact"))[:2]
        ['ablate_output_columns', 'drop_last_column']
    """
    every: dict[str, Mutation] = dict(entries("headwise.conformance.mutations"))
    return MappingProxyType({name: entry for name, entry in every.items() if not levels or entry.level in levels})
