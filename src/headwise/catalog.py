"""What can be added by adding one file: every module of a folder that defines `ENTRY` is found here.

A statistic, a kernel, an invariant, an attack, a role, an edit, a claim and a command are each one file. The name of
an entry is the name of its file.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any


@cache
def entries(package: str) -> Mapping[str, Any]:
    """The `ENTRY` of every module inside `package` and its subpackages, by file name, sorted.

    A subpackage that defines `ENTRY` itself is one entry, and is not searched further.

    Example:
        >>> sorted(entries("headwise.attention.statistics"))[:3]
        ['distance', 'entropy', 'first']
    """
    found = dict(_found(package))
    return MappingProxyType({name: found[name] for name in sorted(found)})


def _found(package: str) -> Iterator[tuple[str, Any]]:
    for module in iter_modules(import_module(package).__path__):
        if module.name.startswith("_"):
            continue
        loaded = import_module(f"{package}.{module.name}")
        if hasattr(loaded, "ENTRY"):
            yield module.name, loaded.ENTRY
        elif module.ispkg:
            yield from _found(loaded.__name__)


def late(name: str) -> Any:
    """Import `"package.module:attribute"` now: for conveniences that point against the direction of imports.

    Example:
        >>> late("headwise.errors:ShapeError").__name__
        'ShapeError'
    """
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
