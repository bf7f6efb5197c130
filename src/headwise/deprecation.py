"""Old names that still work for one release: of parameters, of attributes and of the names in a module, each with a DeprecationWarning."""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from headwise.errors import ArgumentTypeError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def renamed_parameters(**names: str | tuple[str, Callable[[Any], Any]]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function accept the old keyword names of its parameters.

    Args:
        names: the new name of each old one, such as `tell="progress"`; or the new name and a function that makes the new value from the old one.

    Raises:
        ArgumentTypeError: a call gives a parameter by both names.

    Example:
        >>> @renamed_parameters(near="min_similarity")
        ... def count(min_similarity=0.5):
        ...     return min_similarity
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always")
        ...     count(near=0.9)
        0.9
        >>> str(seen[0].message)
        'count(near=...) is deprecated and will be removed in the next release. Use min_similarity.'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                renaming = names[old]
                new, convert = renaming if isinstance(renaming, tuple) else (renaming, _same)
                if new in kwargs:
                    raise ArgumentTypeError(f"{function.__name__} was given both {new} and {old}, its deprecated name. Pass {new} alone.")
                warn(f"{function.__name__}({old}=...)", new)
                kwargs[new] = convert(kwargs.pop(old))
            return function(*args, **kwargs)

        return call

    return decorate


def _same(value: Any) -> Any:
    return value


def renamed_progress(old: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function accept the old name of its progress callback, which was called with the stage alone.

    Args:
        old: the old name of the parameter `progress`.

    Example:
        >>> @renamed_progress("told")
        ... def run(progress):
        ...     progress("checking", 1, 2)
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     run(told=print)
        checking
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                warn(f"{function.__name__}({old}=...)", "progress")
                callback = cast(Callable[[str], object], kwargs.pop(old))
                kwargs["progress"] = lambda stage, done, total: callback(stage)
            return function(*args, **kwargs)

        return call

    return decorate


def keyword_only(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function, whose parameters after the first are keyword-only, accept them by position as it once did.

    Args:
        names: the parameters in their former order.

    Example:
        >>> @keyword_only("level")
        ... def check(subject, *, level="quick"):
        ...     return level
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     check("mine:attend", "full")
        'full'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            first, *rest = args or (None,)
            for name, value in zip(names, rest, strict=False):
                warn(f"{function.__name__} with {name} as a positional argument", f"{name}=...")
                kwargs[name] = value
            return function(*((first,) if args else ()), *rest[len(names) :], **kwargs)  # pyright: ignore[reportCallIssue]

        return call

    return decorate


def renamed_attributes(**names: str) -> Callable[[type[T]], type[T]]:
    """Make the instances of a class answer to the old names of their attributes.

    Args:
        names: the new name of each old one, such as `law="invariant"`.

    Example:
        >>> @renamed_attributes(law="invariant")
        ... class Failure:
        ...     invariant = "causality"
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     Failure().law
        'causality'
    """

    def decorate(kind: type[T]) -> type[T]:
        for old, new in names.items():
            setattr(kind, old, property(_renamed_attribute(kind.__name__, old, new), doc=f"Deprecated name of `{new}`."))
        return kind

    return decorate


def _renamed_attribute(kind: str, old: str, new: str) -> Callable[[object], object]:
    def read(instance: object) -> object:
        warn(f"{kind}.{old}", f"{kind}.{new}")
        return getattr(instance, new)

    return read


def warn(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated.

    Args:
        old: the name as the caller wrote it.
        new: what to use instead.
        stacklevel: frames between this one and the line to blame.
    """
    warnings.warn(f"{old} is deprecated and will be removed in the next release. Use {new}.", DeprecationWarning, stacklevel)


def renamed(old: str, names: Mapping[str, str], module: str) -> str:
    """The new name of a module attribute that was asked for by its old one, after a DeprecationWarning; for a module's `__getattr__`.

    Raises:
        AttributeError: the module has never had such a name.
    """
    if old not in names:
        raise AttributeError(f"module {module!r} has no attribute {old!r}")
    warn(f"{module}.{old}", f"{module}.{names[old]}", stacklevel=4)
    return names[old]
