"""A head that looks more widely or more narrowly: the temperature of its softmax."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from headwise.errors import ArgumentError
from headwise.interventions.amounts import finite
from headwise.interventions.edit import Claim, Edit, Kind, Rewritten, RuntimeChanges, shared, unreachable
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.parameters.head_blocks import HeadBlock


@dataclass(frozen=True)
class Temperature(Edit):
    """Divide one head's scores by a temperature.

        q_h ← q_h / temperature,  in the weights: W_Q[h] and its bias / temperature

    Above 1 the head's weights are flatter, below 1 sharper. What is added to scores after q·k (a bias by distance, a cap, a
    sink) stays as it is. Where queries are normalised after W_Q the size of W_Q has no effect: there it is done as the model runs.

    Args:
        layer: counted within the part.
        head: counted from 0.
        temperature: above 0; 1 changes nothing.
        part: such as "decoder.cross", where a model has several.

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
        finite("temperature", self.temperature)
        if self.temperature <= 0:
            raise ArgumentError(f"temperature must be above 0, got {self.temperature}. Above 1 is flatter, below 1 sharper.")

    def claims(self, head_map: HeadMap) -> list[Claim]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "query")]

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, self.head, self.part)
        side = head_map.projections[place.index].query
        if side.refusal is not None:
            return f"the rows of each head's query cannot be told apart in {place.module}: {side.refusal}"
        if not side.linear:
            return f"queries of {place.module} are normalised after W_Q, whose size has no effect"
        return shared(head_map, place, self._blocks(head_map))

    def not_at_run(self, head_map: HeadMap) -> str | None:
        return unreachable(head_map, head_map.place(self.layer, self.head, self.part))

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        for block in self._blocks(head_map):
            yield Rewritten(block.parameter, lambda whole, block=block: block.put(whole, block.of(whole) / self.temperature))

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), 1 / self.temperature)

        def change(asked: AttentionRequest) -> AttentionRequest:
            return replace(asked, query=asked.query * factors.to(asked.query)[:, None, None])

        return RuntimeChanges(calls={place.index: change})

    def _blocks(self, head_map: HeadMap) -> tuple[HeadBlock, ...]:
        return head_map.side(head_map.place(self.layer, self.head, self.part), "query").heads[self.head].blocks


ENTRY = Kind(Temperature, "the head's scores are divided by a temperature", "LAYER.HEAD=TEMPERATURE")
