"""What an edit is: one change of one head or layer, said once, made in the weights or as the model runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headwise.axes import Tensor
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.call_hooks import CallHook
from headwise.models.hooks.z_hooks import ZHook
from headwise.models.parameters.head_blocks import HeadBlock
from headwise.models.runs.places import Place

Claim = tuple[int, int, str]  # index of a call, head, and what of it an edit lays hands on


@dataclass(frozen=True)
class Rewritten:
    """A parameter made anew from what it was: the same in memory and in a file."""

    parameter: str
    make: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RuntimeChanges:
    """What an edit changes as the model runs.

    Attributes:
        words: by index of the call: what its heads say, before W_O reads it.
        calls: by index of the call: what attention is asked to compute.
    """

    words: Mapping[int, ZHook] = field(default_factory=dict)
    calls: Mapping[int, CallHook] = field(default_factory=dict)


class Edit:
    """One edit; each kind is a frozen dataclass in a file of its own.

    A kind that cannot be made in the weights of a model, or as it runs, says why.
    """

    kind: ClassVar[str]

    def claims(self, head_map: HeadMap) -> Iterable[Claim]:
        """What it lays hands on: two edits that claim the same contradict one another.

        Raises:
            ArgumentError: there is no such layer, head or part.
        """
        raise NotImplementedError

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        """Why it cannot be made in the weights, or None."""
        raise NotImplementedError

    def not_at_run(self, head_map: HeadMap) -> str | None:
        """Why it cannot be made as the model runs, or None."""
        raise NotImplementedError

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        """The parameters that it makes anew."""
        raise NotImplementedError

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        """What it changes as the model runs."""
        raise NotImplementedError

    def spared(self, head_map: HeadMap) -> dict[int, set[int]]:
        """The heads whose writes it does not change, by each call that it does change something of."""
        touched: dict[int, set[int]] = {}
        for index, head, _ in self.claims(head_map):
            touched.setdefault(index, set()).add(head)
        heads = {place.index: place.heads for place in head_map.places}
        return {index: set(range(heads[index])) - found for index, found in touched.items()}


@dataclass(frozen=True)
class Kind:
    """An edit that can be asked for by name.

    Attributes:
        make: the edit's class.
        statement: what it does, in a sentence.
        numbers: how it is written on a command line after its name, such as "LAYER.HEAD=FACTOR".
    """

    make: type[Edit]
    statement: str
    numbers: str


def shared(head_map: HeadMap, place: Place, blocks: Iterable[HeadBlock]) -> str | None:
    """Why the weights of this call cannot be changed alone, or None."""
    for parameter in dict.fromkeys(block.parameter for block in blocks):
        others = head_map.others(place, parameter)
        if others:
            layers = ", ".join(str(other.layer) for other in others[:6])
            return f"{parameter} is layer {place.layer}'s and layer {layers}'s too"
    return None


def unreachable(head_map: HeadMap, place: Place) -> str | None:
    """Why what this attention is asked to compute cannot be changed as the model runs, or None."""
    site = head_map.site(place)
    if site.heads is not None:
        return f"{place.module} computes its attention itself"
    same = [other.layer for other in head_map.places if other.module == place.module and other.index != place.index]
    return f"{place.module} computes layer {place.layer} and layer {', '.join(map(str, same[:6]))} too" if same else None
