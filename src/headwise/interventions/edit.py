"""The interface of an edit: one change of one head or layer, made in the weights or at run time."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headwise.axes import Tensor
from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.call_hooks import CallHook
from headwise.models.hooks.z_hooks import ZHook
from headwise.models.parameters.head_blocks import HeadBlock
from headwise.models.runs.places import Place

Target = tuple[int, int, str]  # index of an attention call, head, and which quantity of the head an edit changes


@dataclass(frozen=True)
class WeightChange:
    """A parameter's new value as a function of its old one; the same for the model in memory and for a checkpoint file."""

    parameter: str
    apply: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RuntimeChanges:
    """What an edit changes at run time.

    Attributes:
        z: by index of the attention call: a function of the heads' outputs z, applied before W_O.
        calls: by index of the attention call: a function of the attention request, applied before attention is computed.
    """

    z: Mapping[int, ZHook] = field(default_factory=dict)
    calls: Mapping[int, CallHook] = field(default_factory=dict)


class Edit:
    """One edit. Each kind is a frozen dataclass in a file of its own under `edits/`.

    An edit that cannot be made in the weights of a model, or not at run time, gives the reason.
    """

    kind: ClassVar[str]

    def targets(self, head_map: HeadMap) -> Iterable[Target]:
        """What the edit changes. Two edits with a target in common contradict each other.

        Raises:
            ArgumentError: the model has no such layer, head or part.
        """
        raise NotImplementedError

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        """Why the edit cannot be made in the weights, or None."""
        raise NotImplementedError

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        """Why the edit cannot be made at run time, or None."""
        raise NotImplementedError

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        """The parameters that the edit changes, and how."""
        raise NotImplementedError

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        """What the edit changes at run time."""
        raise NotImplementedError

    def untouched_heads(self, head_map: HeadMap) -> dict[int, set[int]]:
        """The heads whose writes the edit leaves alone, for each attention call that it changes."""
        touched: dict[int, set[int]] = {}
        for index, head, _ in self.targets(head_map):
            touched.setdefault(index, set()).add(head)
        heads = {place.index: place.heads for place in head_map.places}
        return {index: set(range(heads[index])) - found for index, found in touched.items()}


@dataclass(frozen=True)
class EditKind:
    """An edit that can be requested by name.

    Attributes:
        make: the edit's class.
        summary: what the edit does, in one sentence.
        syntax: what follows its name on the command line, such as "LAYER.HEAD=FACTOR".
    """

    make: type[Edit]
    summary: str
    syntax: str


def check_finite(name: str, number: object) -> None:
    """Check that an edit's amount is a finite number.

    Raises:
        ArgumentError, ArgumentTypeError: it is not.
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ArgumentTypeError(f"{name} must be a number, got {type(number).__name__}. Pass 1.5, say.")
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a finite number, got {number}. Pass 1.5, say.")


def sharing_refusal(head_map: HeadMap, place: Place, blocks: Iterable[HeadBlock]) -> str | None:
    """Why the weights of one attention call cannot be changed without changing another's, or None."""
    for parameter in dict.fromkeys(block.parameter for block in blocks):
        others = head_map.other_users(place, parameter)
        if others:
            layers = ", ".join(str(other.layer) for other in others[:6])
            return f"{parameter} is used by layer {place.layer} and also by layer {layers}"
    return None


def hook_refusal(head_map: HeadMap, place: Place) -> str | None:
    """Why the inputs of this attention call cannot be changed at run time, or None."""
    if head_map.site(place).heads is not None:
        return f"{place.module} computes its attention itself"
    same = [other.layer for other in head_map.places if other.module == place.module and other.index != place.index]
    return f"{place.module} computes layer {place.layer} and also layer {', '.join(map(str, same[:6]))}" if same else None
