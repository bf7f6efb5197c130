"""A peer: the attention of another library, known by name, with the conventions that its documentation states."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import Any

import torch

from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.convention_probe import ResolvedConvention
from headwise.conformance.adapters.function_adapter import ResolvedSubject
from headwise.conformance.adapters.module_subject import ModuleCall, ModuleLayer
from headwise.conformance.capabilities import ABILITIES, LAYER_ABILITIES, OPTIONS
from headwise.conformance.conventions import Conventions
from headwise.errors import ArgumentError, MissingPackage

PeerSubject = CallSubject | ModuleCall | ModuleLayer


@dataclass(frozen=True)
class Peer:
    """The attention of another library. One file in `peers/` each; its name is the name of the file.

    Attributes:
        statement: what it is, in a sentence.
        build: makes its subjects from the arguments that a caller may give. It imports the library, and nothing imports it before.
        needs: the modules that must be installed.
        documented: the conventions that its documentation states; they are shown as documented.
        handles: "module:name" of functions and classes that it knows how to call.
        takes_subject: `build` is given the very function or instance as `subject`.
    """

    statement: str
    build: Callable[..., tuple[PeerSubject, ...]]
    needs: tuple[str, ...] = ()
    documented: tuple[str, ...] = ()
    handles: tuple[str, ...] = ()
    takes_subject: bool = False

    def resolve(
        self, name: str, arguments: Mapping[str, Any], declared: Mapping[str, Any], dtype: torch.dtype | None, device: str | None
    ) -> tuple[ResolvedSubject, ...]:
        """Its subjects, under its own conventions except those that are declared.

        Raises:
            MissingPackage: its library is not installed.
            ArgumentError: it does not take these arguments, this dtype or this device.
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
        return tuple(self._resolved(name, subject, declared, dtype, device) for subject in subjects)

    def _resolved(self, name: str, subject: PeerSubject, declared: Mapping[str, Any], dtype: torch.dtype | None, device: str | None) -> ResolvedSubject:
        if dtype is not None and dtype not in subject.dtypes:
            raise ArgumentError(f"dtype must be one that {name} takes, got {dtype}. Choose {' or '.join(map(str, subject.dtypes))}.")
        if device is not None and torch.device(device) != subject.device and not hasattr(subject, "compute"):
            raise ArgumentError(f"device must be {subject.device} for {name}, got {device}. Leave it out.")
        conventions = tuple(
            ResolvedConvention(f.name, getattr(subject.conventions, f.name), "documented") for f in fields(Conventions) if f.name in self.documented
        )
        known = (*OPTIONS, *ABILITIES) if subject.level == "call" else (*OPTIONS, *ABILITIES, *LAYER_ABILITIES)
        lacks = {option: "it does not support this" for option in known if option not in subject.supports}
        if declared:
            subject = replace(subject, conventions=replace(subject.conventions, **declared))
        if dtype is not None:
            subject = replace(subject, dtypes=(dtype,))
        if device is not None:
            subject = replace(subject, device=torch.device(device))
        return ResolvedSubject(subject, conventions, lacks)
