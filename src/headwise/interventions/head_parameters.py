"""Where the heads of a model are: its attention calls, and the parameters that belong to each head."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from torch import nn

from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.inputs.sample_input import sample_input
from headwise.models.layout import AttentionSite, Layout
from headwise.models.model import Model
from headwise.models.parameters.head_blocks import HeadBlock, output_block
from headwise.models.parameters.qkv_locator import ProjectedHeads, QKVProjections, locate_qkv
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    from headwise.models.inputs.encoding import RunInput


class HeadMap:
    """The heads of a model, found by running it once on a short input.

    Args:
        inputs: the input of that run, as `Model.run` takes it; a few tokens when None.

    Attributes:
        places: every attention call; `parts` lists them by part, layer by layer.
        layout: the attention modules and their W_O.
        inputs: the keyword arguments that the model was called with.
    """

    def __init__(self, model: Model, inputs: "RunInput | None" = None) -> None:
        run = model.run(sample_input(model.hf) if inputs is None else inputs, statistics=(), memory=0)
        self.hf: nn.Module = model.hf
        self.places: tuple[Place, ...] = run._metadata.places
        self.layout: Layout = run._metadata.layout
        self.inputs: Mapping[str, object] = run.forward_pass.inputs

    @cached_property
    def parts(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for place in self.places:
            found.setdefault(place.part, []).append(place)
        return found

    @cached_property
    def projections(self) -> dict[int, QKVProjections]:
        """By attention call, the rows of W_Q, W_K and W_V that belong to each head."""
        return locate_qkv(self.hf, self.inputs, self.layout)

    def place(self, layer: int, head: int | None = None, part: str | None = None) -> Place:
        """The attention call of a layer.

        Raises:
            ArgumentError: there is no such layer, head or part, or the model has several parts and none is named.
        """
        if part is None and len(self.parts) > 1:
            raise ArgumentError(f"part must be given for a model that has several, got None. Choose one of {', '.join(self.parts)}.")
        if part is not None and part not in self.parts:
            raise ArgumentError(f"part must be one of {', '.join(self.parts)}, got {part!r}. Correct the name.")
        places = self.parts[part] if part is not None else next(iter(self.parts.values()))
        _check_index("layer", layer, len(places), "the model")
        if head is not None:
            _check_index("head", head, places[layer].heads, f"layer {layer}")
        return places[layer]

    def site(self, place: Place) -> AttentionSite:
        return self.layout.sites[place.index]

    def w_o(self, place: Place, head: int) -> HeadBlock:
        """The head's block of W_O.

        Raises:
            WritesRefused: the heads cannot be separated before W_O.
        """
        return output_block(self.hf, self.site(place), place.heads, head)

    def projected(self, place: Place, name: str) -> ProjectedHeads:
        """The rows of an attention call's "query", "key" or "value" projection, by head.

        Raises:
            ModelError: they cannot be separated by head; the message gives the reason.
        """
        found: ProjectedHeads = getattr(self.projections[place.index], name)
        if found.refusal is not None:
            raise ModelError(f"Could not find which rows belong to each head's {name} in {place.module}: {found.refusal}.")
        return found

    def other_users(self, place: Place, parameter: str) -> list[Place]:
        """The other attention calls that use a parameter, as in models that repeat a layer."""
        shared = id(self.hf.get_parameter(parameter))
        users = self._w_o_users if shared in self._w_o_users else self._projection_users
        return [other for other in users.get(shared, ()) if other.index != place.index]

    def parameters_of(self, place: Place) -> set[str]:
        """The names of the parameters that hold an attention call's projections and W_O."""
        found = self.projections[place.index]
        names = {block.parameter for side in (found.query, found.key, found.value) for own in side.heads for block in own.blocks}
        return names | self._w_o_of(place)

    @cached_property
    def _w_o_users(self) -> dict[int, list[Place]]:
        """The attention calls of each W_O."""
        return self._users(self._w_o_of)

    @cached_property
    def _projection_users(self) -> dict[int, list[Place]]:
        """The attention calls of each parameter."""
        return self._users(self.parameters_of)

    def _w_o_of(self, place: Place) -> set[str]:
        output = self.site(place).output
        return set() if output is None else {f"{output.module}.weight"}

    def _users(self, names: Callable[[Place], set[str]]) -> dict[int, list[Place]]:
        found: dict[int, list[Place]] = {}
        for place in self.places:
            for name in names(place):
                found.setdefault(id(self.hf.get_parameter(name)), []).append(place)
        return found


def _check_index(name: str, number: object, count: int, where: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ArgumentTypeError(f"{name} must be an int, got {type(number).__name__}. Count from 0.")
    if not 0 <= number < count:
        raise ArgumentError(f"{name} must be in 0..{count - 1} in {where}, got {number}. Choose one of these.")
