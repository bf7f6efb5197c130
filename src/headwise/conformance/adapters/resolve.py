"""The subjects behind what a caller passes: a function, a module, an import path, or the name of a peer."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, get_type_hints

import torch
from torch import nn

from headwise.catalog import entries
from headwise.conformance.adapters.call_guard import printable
from headwise.conformance.adapters.convention_probe import MEANINGS
from headwise.conformance.adapters.function_adapter import ResolvedSubject, adapt_function
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.subject import Subject
from headwise.errors import ArgumentError, ArgumentTypeError, MissingPackage


def resolve(
    subject: object,
    arguments: Mapping[str, Any] | None = None,
    declared: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str | None = None,
) -> tuple[ResolvedSubject, ...]:
    """The subjects that represent what the caller passed. A module is represented twice: as an attention of query, key and value, and as a layer.

    Args:
        arguments: the arguments with which a class or a peer is made.
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
            return peer.resolve(subject, arguments, declared, dtype, device)
        subject = import_subject(subject)
    else:
        name = import_path(subject)
    known = peer_for(subject)
    if known is None and (isinstance(subject, type) or (arguments and not isinstance(subject, nn.Module))):
        subject, arguments = construct(subject, name, arguments), {}
        if not isinstance(subject, nn.Module):
            raise ArgumentTypeError(f"subject must make an nn.Module or be a function, got {name} which makes {type(subject).__name__}. Wrap it in a function.")
        known = peer_for(subject)
    if known is not None:
        return known.resolve(name, {"subject": subject, **arguments} if known.takes_subject else arguments, declared, dtype, device)
    if isinstance(subject, Subject):
        return (ResolvedSubject(subject, (), {}),)
    if isinstance(subject, nn.Module):
        from headwise.conformance.adapters.module_adapter import adapt_module

        known_arguments = {"projections", "num_heads", "num_kv_heads"}
        if not known_arguments.issuperset(arguments):
            unknown = ", ".join(sorted(set(arguments) - known_arguments))
            raise ArgumentError(f"arguments of a module must be projections, num_heads or num_kv_heads, got {unknown}. Leave it out.")
        return adapt_module(subject, name, declared, dtype, device, **arguments)
    if not callable(subject):
        raise ArgumentTypeError(f"subject must be a function, an nn.Module or the name of a peer, got {type(subject).__name__}. Wrap it in a function.")
    return (adapt_function(subject, name, declared, dtype, device),)


def peers() -> Mapping[str, Peer]:
    """Every attention of another library that is known by name."""
    return entries("headwise.conformance.adapters.peers")


def peer_for(subject: object) -> Peer | None:
    """The peer that knows how to call this function or class, or None."""
    module, name = getattr(subject, "__module__", None), getattr(subject, "__qualname__", getattr(subject, "__name__", None))
    kind = type(subject)
    paths = {f"{module}:{name}", *(f"{base.__module__}:{base.__qualname__}" for base in kind.__mro__)}
    return next((peer for peer in peers().values() if paths & set(peer.handles)), None)


def import_path(subject: object) -> str:
    """The import path of an object, as far as it has one."""
    module = getattr(subject, "__module__", None) or type(subject).__module__
    return f"{module}:{getattr(subject, '__qualname__', type(subject).__qualname__)}"


def import_subject(path: str) -> object:
    """The object at "package.module:attribute".

    Raises:
        ArgumentError: no such module or attribute; the message names those that there are.
        MissingPackage: the module exists, and needs a package that is not installed.

    Example:
        >>> import_subject("headwise.errors:ShapeError").__name__
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
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
        reason = f"{type(error).__name__}: {printable((str(error).splitlines() or ['no message'])[0][:200])}"
        raise ArgumentError(f"subject must name a module that can be imported, got {module!r} whose import raises {reason}. Fix it, or name another.") from None
    for step in attribute.split("."):
        if not hasattr(found, step):
            names = [name for name in dir(found) if not name.startswith("_") and callable(getattr(found, name, None))]
            raise ArgumentError(f"subject must name something in {module}, got {attribute!r}. {_closest(step, names)}")
        found = getattr(found, step)
    return found


def _closest(word: str, names: Iterable[str]) -> str:
    """A sentence with the names most like this one, and what there is."""
    names = sorted(names)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    listing = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
    return (f"Did you mean {' or '.join(close)}? " if close else "") + (f"There are {listing}." if names else "It has nothing that can be called.")


def _modules(path: str) -> str:
    """A sentence with the modules of the deepest package of a path that exists."""
    parent, _, last = path.rpartition(".")
    if not parent:
        return "Check the spelling, and that you are in the folder that holds it."
    try:
        found = import_module(parent)
    except Exception:  # noqa: BLE001 - a package that cannot be imported has no names to offer
        return _modules(parent)
    from pkgutil import iter_modules

    return _closest(last, [module.name for module in iter_modules(getattr(found, "__path__", []))])


def construct(made: object, name: str, arguments: Mapping[str, Any]) -> object:
    """The result of calling a class, or a function that makes modules, with these arguments.

    Raises:
        ArgumentTypeError: it cannot be called.
        ArgumentError: it does not take these arguments.
    """
    if not callable(made):
        raise ArgumentTypeError(f"arguments must come with a class, got {name} which is {type(made).__name__}. Leave them out.")
    try:
        return made(**arguments)
    except (TypeError, ValueError, AssertionError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items()) or "none"
        raise ArgumentError(f"arguments must be those that {name} takes, got {given} ({error}). Pass each with --arg NAME=VALUE.") from None


def declared_conventions(conventions: Conventions | Mapping[str, Any] | None) -> dict[str, Any]:
    """The conventions that the caller declares, by name: all fields of a `Conventions`, or those named in a mapping.

    Raises:
        ArgumentError: an unknown convention, or an unknown value of one.

    Example:
        >>> declared_conventions({"corner": "top-left"})
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
        values = [known for field, known in MEANINGS if field == name]
        if value not in values:
            raise ArgumentError(f"convention {name} must be one of {', '.join(map(repr, values))}, got {value!r}. Choose one of them.")
    return dict(conventions)
