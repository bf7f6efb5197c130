"""The content of code: of a function its bytecode, defaults, closure and the globals it reads; of a class its methods; of a library its version.

File names and line numbers are ignored. What a function reads from outside Python (files, clocks, the network) cannot be detected.
"""

import dis
import functools
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import resolve_name
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType, WrapperDescriptorType
from typing import Any

from headwise.errors import FingerprintError
from headwise.storage.content import Content
from headwise.storage.environment import package_code

BUILT_IN = (BuiltinFunctionType, MethodWrapperType, WrapperDescriptorType, type(str.join), type(dict.__dict__["fromkeys"]))
ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
# Attributes of a class that follow from the rest, or that change no result.
BOOKKEEPING = frozenset(
    (
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "_abc_impl",
        "__abstractmethods__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__parameters__",
        "__orig_bases__",
        "__protocol_attrs__",
        "__non_callable_proto_members__",
        "__hash__",
        "__slots__",
    )
)


def callable_content(f: Any) -> Content | None:
    """The content of a function, method, class or module; None for another value.

    Raises:
        FingerprintError: its code cannot be read.
    """
    if isinstance(f, CodeType):
        return code_content(f)
    if isinstance(f, ModuleType):
        return module_content(f)
    if isinstance(f, FunctionType):
        return _library_content(f) or Content("function", parts=_function_parts(f), identity=True)
    if isinstance(f, type):
        return _library_content(f) or Content("class", parts=list(_class_parts(f)), identity=True)
    if isinstance(f, MethodType):
        return Content("method", parts=[("function", f.__func__), ("self", f.__self__)])
    if isinstance(f, functools.partial):
        return Content("partial", parts=[("function", f.func), ("arguments", f.args), ("keywords", f.keywords)])
    if isinstance(f, BUILT_IN):
        return _built_in_content(f)
    if type(f).__name__ == "_lru_cache_wrapper":
        return Content("cached", parts=[("function", f.__wrapped__)])
    return _descriptor_content(f)


def code_content(code: CodeType) -> Content:
    """Bytecode, constants and names, without the position in a file."""
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return Content("code", code.co_code, [("counts", counts), ("names", names), ("exceptions", code.co_exceptiontable), ("constants", code.co_consts)])


def module_content(module: ModuleType) -> Content:
    """The name and version of a library module.

    Raises:
        FingerprintError: it belongs to no installed package, so its version is unknown.
    """
    known = library(module.__name__)
    if known is None:
        raise FingerprintError(
            f"the module {module.__name__!r} belongs to no installed package, so its version is unknown. Import the functions you use from it by name."
        )
    return Content("module", f"{module.__name__} {known}".encode())


@cache
def library(name: str) -> str | None:
    """The version of the installed package that a module belongs to; None for user code.

    The version of headwise itself is the content of all its files.
    """
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"Python {sys.version}"
    if top == "headwise":
        return package_code()
    module = sys.modules.get(top)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    if not any(place is not None and _is_installed(str(place)) for place in places):
        return None
    return _version(top, module)


def _version(top: str, module: ModuleType | None) -> str | None:
    try:
        return f"{top} {version(top)}"
    except PackageNotFoundError:
        pass
    stated = getattr(module, "__version__", None)
    if isinstance(stated, str):
        return f"{top} {stated}"
    found = packages_distributions().get(top, ())
    return f"{top} {', '.join(f'{name} {version(name)}' for name in sorted(found))}" if found else None


def _is_installed(place: str) -> bool:
    return any(Path(place).is_relative_to(folder) for folder in _site_folders())


@cache
def _site_folders() -> tuple[str, ...]:
    found = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    return (*found, *(folder for folder in sys.path if folder.rstrip("/").endswith(("site-packages", "dist-packages"))))


def _library_content(f: Any) -> Content | None:
    """A function or class that is importable from a library under its own name; None for user code and for local functions."""
    known = library(f.__module__) if isinstance(f.__module__, str) else None
    if known is None:
        return None
    found: Any = sys.modules.get(f.__module__)
    for name in f.__qualname__.split("."):
        found = getattr(found, name, None)
    return Content("of a library", f"{f.__module__}.{f.__qualname__} {known}".encode()) if found is f else None


def _function_parts(f: FunctionType) -> list[tuple[str, Any]]:
    cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    closure = [(name, cell.cell_contents if _is_filled(cell) else None) for name, cell in cells]
    defaults = [("defaults", f.__defaults__), ("keyword defaults", f.__kwdefaults__), ("attributes", {**vars(f)} or None)]
    return [("code", f.__code__), *defaults, *closure, *_globals_of(f.__code__, f.__globals__)]


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # a name that is not assigned yet
        return False
    return True


def _globals_of(code: CodeType, known: dict[str, Any]) -> list[tuple[str, Any]]:
    """The globals that a function and its inner functions read, by name; of a user module, the attributes that are read."""
    found: dict[str, Any] = {}
    for inner in _codes(code):
        steps = [step for step in dis.get_instructions(inner) if step.opname != "CACHE"]
        for place, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in known:
                found |= dict([_attribute(step.argval, known[step.argval], steps[place + 1 :])])
            elif step.opname == "IMPORT_NAME":
                level = steps[place - 2].argval
                name = resolve_name("." * level + str(step.argval), known["__package__"]) if level else str(step.argval)
                found |= dict(_imported(name, steps[place + 1 :]))
    return sorted(found.items())


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _attribute(name: str, value: Any, steps: list[dis.Instruction]) -> tuple[str, Any]:
    for step in steps:
        if not isinstance(value, ModuleType) or library(value.__name__) is not None or step.opname not in ATTRIBUTE or not hasattr(value, step.argval):
            break
        name, value = f"{name}.{step.argval}", getattr(value, step.argval)
    return name, value


def _imported(name: str, steps: list[dis.Instruction]) -> Iterator[tuple[str, Any]]:
    """What a function imports when called: the version of a library, or the names taken from a user module."""
    known, module = library(name), _import(name)
    if known is not None or module is None:
        yield f"import {name}", f"{name} {known}"
        return
    taken = []
    for step in steps:
        if step.opname == "POP_TOP":
            break
        taken += [str(step.argval)] if step.opname == "IMPORT_FROM" else []
    for one in taken:
        yield f"{name}.{one}", getattr(module, one, None) or _import(f"{name}.{one}") or module
    if not taken:
        yield f"import {name}", module


def _import(name: str) -> ModuleType | None:
    """The imported module; None if an optional package is missing."""
    try:
        return import_module(name)
    except ImportError:
        return None


def _class_parts(kind: type) -> Iterator[tuple[str, Any]]:
    yield "name", kind.__qualname__
    yield "bases", tuple(base for base in kind.__bases__ if base is not object)
    for name, value in sorted(vars(kind).items()):
        if name not in BOOKKEEPING and not _is_slot(value):
            yield name, value


def _is_slot(value: Any) -> bool:
    return type(value).__name__ in ("member_descriptor", "getset_descriptor")


def _built_in_content(f: Any) -> Content:
    owner = getattr(f, "__self__", None)
    name = f"{getattr(f, '__module__', None)}.{getattr(f, '__qualname__', f.__name__)}"
    if owner is None or isinstance(owner, ModuleType):
        module = getattr(f, "__module__", None) or "builtins"
        known = library(module)
        if known is None:
            raise FingerprintError(f"the compiled function {name} belongs to no installed package, so its version is unknown. Install it as a package.")
        return Content("built-in", f"{name} {known}".encode())
    return Content("built-in method", name.encode(), [("self", owner)])


def _descriptor_content(f: Any) -> Content | None:
    if isinstance(f, property):
        return Content("property", parts=[("get", f.fget), ("set", f.fset), ("delete", f.fdel)])
    if isinstance(f, classmethod | staticmethod):
        return Content(type(f).__name__, parts=[("function", f.__func__)])
    if isinstance(f, functools.cached_property):
        return Content("cached property", parts=[("function", f.func)])
    return None
