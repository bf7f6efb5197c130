"""The source code of a module and of the modules of this package that it imports, read as text.

Used to key what is expensive to make and depends on few modules; every other key includes the code of the whole package.
"""

import ast
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HOME = Path(__file__).parent.parent
NO_PART = frozenset({"rich", "typing", "collections", "pathlib", "dataclasses"})  # imported, but without effect on the result


def source_closure(module: str, within: str) -> dict[str, str]:
    """The source of a module and of everything it imports from one package, also inside functions, and the version of each library.

    Args:
        within: the package: "headwise.models.loading".

    Returns:
        By module name its source, and by library name its version.

    Example:
        >>> sorted(source_closure("headwise.models.loading.demos.smollm2", within="headwise.models.loading"))[-3:]
        ['safetensors', 'torch', 'transformers']
    """
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _path(name)
        if path is None or name in found:
            continue
        found[name] = path.read_text(encoding="utf-8")
        for imported in _imports(ast.parse(found[name])):
            top = imported.partition(".")[0]
            if imported.startswith(f"{within}."):
                waiting.append(imported)
            elif top not in NO_PART and top != "headwise":
                found[top] = _version(top)
    return dict(sorted(found.items()))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _path(module: str) -> Path | None:
    path = HOME.parent.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # of the standard library, or not installed
        return "none"
