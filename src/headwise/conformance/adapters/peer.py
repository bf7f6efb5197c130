"""What a peer is: somebody else's attention, known by name, with what its documentation says it means."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import Any

import torch

from headwise.conformance.adapters.convention_probe import Stated
from headwise.conformance.adapters.function import Found
from headwise.conformance.adapters.subject import ABILITIES, OF_LAYERS, OPTIONS, Subject
from headwise.conformance.problems.conventions import Conventions
from headwise.errors import ArgumentError, MissingPackage


@dataclass(frozen=True)
class Peer:
    """One attention of the field. One file in `peers/` each; its name is the name of the file.

    Attributes:
        statement: what it is, in a sentence.
        build: makes its subjects; takes the arguments that a caller may give. Imports its package, and not before.
        needs: modules that must be there.
        says: conventions on which its documentation is explicit, with the sentence's gist; shown as documented.
        stands_for: "module:name" of functions and classes that it knows how to call.
        takes_subject: `build` is given the very function or instance as `subject`.
    """

    statement: str
    build: Callable[..., tuple[Subject, ...]]
    needs: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    stands_for: tuple[str, ...] = ()
    takes_subject: bool = False

    def made(self, name: str, arguments: Mapping[str, Any], declared: Mapping[str, Any], dtype: torch.dtype | None, device: str | None) -> tuple[Found, ...]:
        """Its subjects, under its own conventions but for those declared.

        Raises:
            MissingPackage: its package is not installed.
            ArgumentError: it takes no such arguments, dtype or device.
        """
        for module in self.needs:
            if find_spec(module) is None:
                raise MissingPackage(f"{name} needs the package {module}, which is not installed. Run `pip install 'headwise[peers]'`.")
        try:
            subjects = self.build(**arguments)
        except TypeError as error:
            raise ArgumentError(
                f"arguments must be those that {name} takes, got {', '.join(arguments) or 'none'} ({error}). Leave them out or correct them."
            ) from None
        return tuple(self._found(name, subject, declared, dtype, device) for subject in subjects)

    def _found(self, name: str, subject: Subject, declared: Mapping[str, Any], dtype: torch.dtype | None, device: str | None) -> Found:
        if dtype is not None and dtype not in subject.dtypes:
            raise ArgumentError(f"dtype must be one that {name} takes, got {dtype}. Choose {' or '.join(map(str, subject.dtypes))}.")
        if device is not None and torch.device(device) != subject.device and not hasattr(subject, "compute"):
            raise ArgumentError(f"device must be {subject.device} for {name}, got {device}. Leave it out.")
        changes: dict[str, Any] = {"conventions": replace(subject.conventions, **declared)} if declared else {}
        changes |= {} if dtype is None else {"dtypes": (dtype,)}
        changes |= {} if device is None else {"device": torch.device(device)}
        stated = tuple(Stated(f.name, getattr(subject.conventions, f.name), "documented") for f in fields(Conventions) if f.name in self.says)
        known = (*OPTIONS, *ABILITIES) if subject.level == "call" else (*OPTIONS, *ABILITIES, *OF_LAYERS)
        lacks = {name: "it knows no such thing" for name in known if name not in subject.honours}
        return Found(replace(subject, **changes) if changes else subject, stated, lacks)
