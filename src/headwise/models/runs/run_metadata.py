"""Metadata of a run, independent of its memory budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from headwise.axes import Bool, Rows, Tensor
from headwise.errors import ModelError
from headwise.models.layout import Layout
from headwise.models.runs.places import Place
from headwise.models.runs.statistics_collector import CallStatistics


@dataclass(frozen=True, eq=False)
class RunMetadata:
    """Places, statistics, tokens and notes of a run.

    Attributes:
        places: of the calls, in the order of the pass.
        numbers: of each call.
        tokens: of the main input, by batch row; `decoder_tokens` of a decoder's.
        padding: by part: True where a query is padding.
        notes: what a reader of the numbers should know.
    """

    places: tuple[Place, ...]
    layout: Layout
    numbers: Mapping[int, CallStatistics]
    tokens: Sequence[Sequence[str]]
    decoder_tokens: Sequence[Sequence[str]] | None
    padding: Mapping[str, Bool[Tensor, "B T"] | None]
    notes: tuple[str, ...]

    def check_same(self, index: int, lse: Rows) -> None:
        """Check that a later pass is the same pass.

        Raises:
            ModelError: it is not.
        """
        if not torch.equal(lse.nan_to_num(), self.numbers[index].lse.nan_to_num()):
            raise ModelError(f"The model has changed since the run: {self.places[index].module} gives other numbers. Run it again.")
