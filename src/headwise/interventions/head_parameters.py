"""Where a model's heads are: the calls of a short pass, and the parameters that each head owns."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from torch import nn

from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.inputs.sample_input import sample_input
from headwise.models.layout import AttentionSite, Layout
from headwise.models.model import Model
from headwise.models.parameters.head_blocks import HeadBlock, output_block
from headwise.models.parameters.qkv_locator import ProjectedHeads, QKVProjections, locate_qkv
from headwise.models.runs.places import Place


class HeadMap:
    """The heads of a model, found by running it once on a short input.

    Args:
        inputs: what to run, as `Model.run` takes it; a few tokens when absent.

    Attributes:
        places: every attention call; `parts` lists them by part, layer by layer.
        layout: where the calls and their W_O are.
        given: the model's keyword arguments of that pass.
    """

    def __init__(self, model: Model, inputs: Any = None) -> None:
        run = model.run(sample_input(model.hf) if inputs is None else inputs, statistics=(), memory=0)
        self.hf: nn.Module = model.hf
        self.places: tuple[Place, ...] = run._metadata.places
        self.layout: Layout = run._metadata.layout
        self.given: Mapping[str, Any] = run._forward_pass.inputs  # pyright: ignore[reportOptionalMemberAccess]

    @cached_property
    def parts(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for place in self.places:
            found.setdefault(place.part, []).append(place)
        return found

    @cached_property
    def projections(self) -> dict[int, QKVProjections]:
        return locate_qkv(self.hf, self.given, self.layout)

    def place(self, layer: int, head: int | None = None, part: str | None = None) -> Place:
        """The call of a layer.

        Raises:
            ArgumentError: there is no such layer, head or part, or several parts and none is named.
        """
        if part is None and len(self.parts) > 1:
            raise ArgumentError(f"part must be given where a model has several, got None. Choose one of {', '.join(self.parts)}.")
        if part is not None and part not in self.parts:
            raise ArgumentError(f"part must be one of {', '.join(self.parts)}, got {part!r}. Correct the name.")
        places = self.parts[part] if part is not None else next(iter(self.parts.values()))
        _check("layer", layer, len(places), "the model")
        if head is not None:
            _check("head", head, places[layer].heads, f"layer {layer}")
        return places[layer]

    def site(self, place: Place) -> AttentionSite:
        return self.layout.sites[place.index]

    def output(self, place: Place, head: int) -> HeadBlock:
        """The head's part of W_O.

        Raises:
            WritesRefused: heads cannot be told apart there.
        """
        return output_block(self.hf, self.site(place), place.heads, head)

    def side(self, place: Place, name: str) -> ProjectedHeads:
        """The rows of a call's "query", "key" or "value".

        Raises:
            ModelError: they cannot be told apart by head; the message says why.
        """
        side: ProjectedHeads = getattr(self.projections[place.index], name)
        if side.refusal is not None:
            raise ModelError(f"the rows of each head's {name} must be told apart in {place.module}, got none: {side.refusal}.")
        return side

    def others(self, place: Place, parameter: str) -> list[Place]:
        """Other calls that use a parameter too: layers that are used again and again."""
        mine = id(self.hf.get_parameter(parameter))
        users = self._outputs if mine in self._outputs else self._projected
        return [other for other in users.get(mine, ()) if other.index != place.index]

    def used(self, place: Place) -> set[str]:
        """The parameters that hold a call's projections and W_O."""
        sides = self.projections[place.index]
        names = {block.parameter for side in (sides.query, sides.key, sides.value) for own in side.heads for block in own.blocks}
        return names | self._output_of(place)

    @cached_property
    def _outputs(self) -> dict[int, list[Place]]:
        """The calls of each W_O."""
        return self._users(self._output_of)

    @cached_property
    def _projected(self) -> dict[int, list[Place]]:
        """The calls of each parameter."""
        return self._users(self.used)

    def _output_of(self, place: Place) -> set[str]:
        output = self.site(place).output
        return set() if output is None else {f"{output.module}.weight"}

    def _users(self, names: Callable[[Place], set[str]]) -> dict[int, list[Place]]:
        found: dict[int, list[Place]] = {}
        for place in self.places:
            for name in names(place):
                found.setdefault(id(self.hf.get_parameter(name)), []).append(place)
        return found


def _check(name: str, number: Any, count: int, where: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ArgumentTypeError(f"{name} must be an int, got {type(number).__name__}. Count from 0.")
    if not 0 <= number < count:
        raise ArgumentError(f"{name} must be in 0..{count - 1} in {where}, got {number}. Choose one of these.")
