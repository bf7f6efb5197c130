"""The laws that a subject is held to."""

from collections.abc import Mapping
from types import MappingProxyType

from headwise.catalog import entries
from headwise.conformance.invariants.law import Law
from headwise.errors import ArgumentError


def laws() -> Mapping[str, Law]:
    """Every invariant that judges an attention that can be called, by name."""
    return MappingProxyType({name: entry for name, entry in entries("headwise.conformance.invariants").items() if isinstance(entry, Law)})


def law(name: str) -> Law:
    """One of them.

    Raises:
        ArgumentError: there is none of this name.
    """
    if name not in laws():
        raise ArgumentError(f"law must be one of {', '.join(laws())}, got {name!r}. Check the name.")
    return laws()[name]
