"""The compiled extension, where it was built, and the instruction set that it uses."""

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

from headwise.errors import EnvironmentVariableError

HOW_TO_BUILD = "Install GCC or Clang, then headwise again (in a checkout: `make setup`)"


@cache
def compiled() -> ModuleType | None:
    """The extension module, or None where it was not built or cannot be loaded here."""
    try:
        return import_module("headwise.attention.kernels.native._native")
    except ImportError:
        return None


@runtime_checkable
class NativeLibrary(Protocol):
    """The functions that `bind.cpp` exports; their arguments are the fields of `problem.h`."""

    def attend(self, **arguments: object) -> None: ...
    def pool(self, **arguments: object) -> None: ...
    def instruction_sets(self) -> list[str]: ...


def library() -> NativeLibrary:
    """The functions of the extension; call it only where `compiled()` is not None."""
    return cast(NativeLibrary, compiled())


def instruction_sets() -> list[str]:
    """The instruction sets that this machine supports, the fastest first; empty where the kernel is not built."""
    return [] if compiled() is None else library().instruction_sets()


def instruction_set() -> str:
    """The instruction set that `HEADWISE_ISA` names, or else the fastest.

    Raises:
        EnvironmentVariableError: this machine does not support the one named, or it does not exist.
    """
    supported = instruction_sets()
    name = os.environ.get("HEADWISE_ISA") or supported[0]
    if name not in supported:
        raise EnvironmentVariableError(f"HEADWISE_ISA must be one of {supported} on this machine, got {name!r}. Unset it for the fastest.")
    return name
