"""The compiled part, where there is one, and the instruction set that it runs on."""

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from headwise.errors import BackendError

HOW_TO_BUILD = "Install GCC or Clang, then headwise again (in a checkout: `make setup`)"


@cache
def compiled() -> ModuleType | None:
    """The extension module, or None where it was not built or cannot be loaded here."""
    try:
        return import_module("headwise.attention.kernels.native._native")
    except ImportError:
        return None


def library() -> Any:
    """The extension module, where `compiled` has it: its functions are known to no type checker."""
    return compiled()


def instruction_sets() -> list[str]:
    """Those that run on this machine, the fastest first; empty where the kernel is not built."""
    return [] if compiled() is None else library().instruction_sets()


def instruction_set() -> str:
    """The one that `HEADWISE_ISA` names, or the fastest.

    Raises:
        BackendError: the one named doesn't run here.
    """
    here = instruction_sets()
    asked = os.environ.get("HEADWISE_ISA") or here[0]
    if asked not in here:
        raise BackendError(f"HEADWISE_ISA must be one of {here} on this machine, got {asked!r}. Unset it for the fastest.")
    return asked
