"""The temperature of a head's softmax."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from headwise.errors import ArgumentError
from headwise.interventions.edit import Edit, EditKind, RuntimeChanges, Target, WeightChange, check_finite, hook_refusal, sharing_refusal
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.parameters.head_blocks import HeadBlock


@dataclass(frozen=True)
class Temperature(Edit):
    """Divide one head's scores by a temperature.

        q_h ← q_h / temperature,  in the weights: W_Q[h] and its bias / temperature

    Above 1 the pattern is flatter, below 1 sharper. Terms added to the scores after q·k (a position bias, a cap, a sink) stay as they
    are. Where queries are normalised after W_Q the size of W_Q has no effect, and the edit is made at run time.

    Args:
        layer: counted within the part.
        head: counted from 0.
        temperature: above 0; 1 changes nothing.
        part: such as "decoder.cross", for a model that has several.

    Raises:
        ArgumentError: the temperature is not a finite number above 0.

    Example:
        >>> Temperature(0, 4, 2.0).temperature
        2.0
    """

    layer: int
    head: int
    temperature: float
    part: str | None = None
    kind: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        check_finite("temperature", self.temperature)
        if self.temperature <= 0:
            raise ArgumentError(f"temperature must be above 0, got {self.temperature}. Above 1 is flatter, below 1 sharper.")

    def targets(self, head_map: HeadMap) -> list[Target]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "query")]

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, self.head, self.part)
        projected = head_map.projections[place.index].query
        if projected.refusal is not None:
            return f"the rows of each head's query cannot be separated in {place.module}: {projected.refusal}"
        if not projected.linear:
            return f"queries of {place.module} are normalised after W_Q, so the size of W_Q has no effect"
        return sharing_refusal(head_map, place, self._blocks(head_map))

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        return hook_refusal(head_map, head_map.place(self.layer, self.head, self.part))

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        for block in self._blocks(head_map):
            yield WeightChange(block.parameter, lambda whole, block=block: block.put(whole, block.of(whole) / self.temperature))

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), 1 / self.temperature)

        def change(request: AttentionRequest) -> AttentionRequest:
            return replace(request, query=request.query * factors.to(request.query)[:, None, None])

        return RuntimeChanges(calls={place.index: change})

    def _blocks(self, head_map: HeadMap) -> tuple[HeadBlock, ...]:
        return head_map.projected(head_map.place(self.layer, self.head, self.part), "query").heads[self.head].blocks


ENTRY = EditKind(Temperature, "divide the head's scores by a temperature", "LAYER.HEAD=TEMPERATURE")
