"""What the caller points to: a function, a module, an import path, or a peer by name."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, get_type_hints

import torch
from torch import nn

from headwise.catalog import entries
from headwise.conformance.adapters.convention_probe import MEANINGS
from headwise.conformance.adapters.function import Found, of_function
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.sandbox.watched_subject import legible
from headwise.errors import ArgumentError, ArgumentTypeError, MissingPackage


def find(
    subject: Any,
    arguments: Mapping[str, Any] | None = None,
    declared: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str | None = None,
) -> tuple[Found, ...]:
    """The subjects that stand for what the caller points to: a module is one as a call, and one as a layer.

    Args:
        arguments: with which a class is made.
        declared: conventions by name.

    Raises:
        ArgumentError: there is no such thing; the message names what there is.
        ArgumentTypeError: it is nothing that can be checked.
        MissingPackage: a peer whose package is not installed.
    """
    arguments, declared = dict(arguments or {}), dict(declared or {})
    if isinstance(subject, str):
        name = subject
        peer = peers().get(subject)
        if peer is not None:
            return peer.made(subject, arguments, declared, dtype, device)
        subject = imported(subject)
    else:
        name = named(subject)
    known = standing_for(subject)
    if known is None and (isinstance(subject, type) or (arguments and not isinstance(subject, nn.Module))):
        subject, arguments = construct(subject, name, arguments), {}
        if not isinstance(subject, nn.Module):
            raise ArgumentTypeError(f"subject must make an nn.Module or be a function, got {name} which makes {type(subject).__name__}. Wrap it in a function.")
        known = standing_for(subject)
    if known is not None:
        return known.made(name, {"subject": subject, **arguments} if known.takes_subject else arguments, declared, dtype, device)
    if hasattr(subject, "honours") and hasattr(subject, "attend"):
        return (Found(subject, (), {}),)
    if isinstance(subject, nn.Module):
        from headwise.conformance.adapters.module import of_module

        try:
            return of_module(subject, name, declared, dtype, device, **arguments)
        except TypeError as error:
            raise ArgumentError(
                f"arguments must be projections, num_heads or num_kv_heads beside a module, got {', '.join(arguments)} ({error}). Leave them out."
            ) from None
    return (of_function(subject, name, declared, dtype, device),)


def peers() -> Mapping[str, Peer]:
    """Every attention of the field that is known by name."""
    return entries("headwise.conformance.adapters.peers")


def standing_for(subject: Any) -> Peer | None:
    """The peer that knows this very function or class, where there is one."""
    module, name = getattr(subject, "__module__", None), getattr(subject, "__qualname__", getattr(subject, "__name__", None))
    kind = type(subject)
    paths = {f"{module}:{name}", *(f"{base.__module__}:{base.__qualname__}" for base in kind.__mro__)}
    return next((peer for peer in peers().values() if paths & set(peer.stands_for)), None)


def named(subject: Any) -> str:
    """The import path of an object, as far as it has one."""
    module = getattr(subject, "__module__", None) or type(subject).__module__
    return f"{module}:{getattr(subject, '__qualname__', type(subject).__qualname__)}"


def imported(path: str) -> Any:
    """What "package.module:attribute" points to.

    Raises:
        ArgumentError: no such module or attribute; the message names those that there are.
        MissingPackage: the module exists, and needs a package that is not installed.

    Example:
        >>> imported("headwise.errors:ShapeError").__name__
        'ShapeError'
    """
    module, colon, attribute = path.partition(":")
    if not colon:
        raise ArgumentError(f"subject must be package.module:attribute or a peer, got {path!r}. {_closest(path, peers())}")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(f"{missing}."):
            raise ArgumentError(f"subject must name a module that can be imported, got {module!r}. {_modules(module)}") from None
        raise MissingPackage(f"{module} needs the package {missing}, which is not installed. Run `pip install {missing.partition('.')[0]}`.") from None
    except Exception as error:  # noqa: BLE001 - whatever a stranger's module raises
        said = f"{type(error).__name__}: {legible((str(error).splitlines() or ['no message'])[0][:200])}"
        raise ArgumentError(f"subject must name a module that can be imported, got {module!r} whose import raises {said}. Mend it, or name another.") from None
    for step in attribute.split("."):
        if not hasattr(found, step):
            names = [name for name in dir(found) if not name.startswith("_") and callable(getattr(found, name, None))]
            raise ArgumentError(f"subject must name something in {module}, got {attribute!r}. {_closest(step, names)}")
        found = getattr(found, step)
    return found


def _closest(word: str, names: Any) -> str:
    names = sorted(names)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    listing = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
    return (f"Did you mean {' or '.join(close)}? " if close else "") + (f"There are {listing}." if names else "There is nothing in it that can be called.")


def _modules(path: str) -> str:
    """What the deepest part of a path that does exist holds."""
    parent, _, last = path.rpartition(".")
    if not parent:
        return "Check the spelling, and whether the folder it lies in is the one you are in."
    try:
        found = import_module(parent)
    except Exception:  # noqa: BLE001 - it is named no more than the one below it
        return _modules(parent)
    from pkgutil import iter_modules

    return _closest(last, [module.name for module in iter_modules(getattr(found, "__path__", []))])


def construct(made: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> Any:
    """An instance of a class."""
    if not isinstance(made, type) and not callable(made):
        raise ArgumentTypeError(f"arguments must come with a class, got {name} which is {type(made).__name__}. Leave them out.")
    try:
        return made(**arguments)
    except (TypeError, ValueError, AssertionError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items()) or "none"
        raise ArgumentError(f"arguments must be those that {name} takes, got {given} ({error}). Pass each with --arg NAME=VALUE.") from None


def declarations(conventions: Conventions | Mapping[str, Any] | None) -> dict[str, Any]:
    """Conventions that the caller declares, by name: all of a `Conventions`, those named in a mapping.

    Raises:
        ArgumentError: no such convention, or no such value.

    Example:
        >>> declarations({"corner": "top-left"})
        {'corner': 'top-left'}
    """
    if conventions is None:
        return {}
    if isinstance(conventions, Conventions):
        return {field.name: getattr(conventions, field.name) for field in fields(Conventions)}
    hints = get_type_hints(Conventions)
    for name, value in conventions.items():
        if name not in hints:
            raise ArgumentError(f"conventions must be among {', '.join(hints)}, got {name!r}. Check the name.")
        values = [meaning for field, meaning in MEANINGS if field == name]
        if value not in values:
            raise ArgumentError(f"convention {name} must be one of {', '.join(map(repr, values))}, got {value!r}. Choose one of them.")
    return dict(conventions)
