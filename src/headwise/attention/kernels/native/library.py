"""The compiled part, where there is one."""

from functools import cache
from importlib import import_module
from types import ModuleType

HOW_TO_BUILD = "Install GCC or Clang and run `pip install --force-reinstall --no-deps headwise` (in a checkout: `make setup`)"


@cache
def compiled() -> ModuleType | None:
    """The extension module, or None where it was not built or cannot be loaded here."""
    try:
        return import_module("headwise.attention.kernels.native._native")
    except ImportError:
        return None


def library() -> ModuleType:
    """The extension module; only called after `compiled` gave one."""
    module = compiled()
    assert module is not None
    return module


def instruction_sets() -> list[str]:
    """Those that run on this machine, the fastest first; empty where the kernel is not built."""
    module = compiled()
    return [] if module is None else list(module.instruction_sets())
