"""What can be added by adding one file: every module of a folder that defines `ENTRY` is found here.

A statistic, a kernel, an invariant, an attack, a role, an edit, a claim and a command are each one file. The name of
an entry is the name of its file.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any


@cache
def entries(package: str) -> Mapping[str, Any]:
    """The `ENTRY` of every module directly inside `package`, by file name, sorted.

    Example:
        >>> sorted(entries("headwise.attention.statistics"))[:3]
        ['distance', 'entropy', 'first']
    """
    folder = import_module(package)
    names = sorted(found.name for found in iter_modules(folder.__path__) if not found.name.startswith("_"))
    modules = {name: import_module(f"{package}.{name}") for name in names}
    return MappingProxyType({name: module.ENTRY for name, module in modules.items() if hasattr(module, "ENTRY")})


def late(name: str) -> Any:
    """Import `"package.module:attribute"` now: for conveniences that point against the direction of imports.

    Example:
        >>> late("headwise.errors:ShapeError").__name__
        'ShapeError'
    """
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
