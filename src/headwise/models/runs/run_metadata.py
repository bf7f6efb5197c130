"""What a run knows of itself, whatever it keeps in memory."""

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
    """What a run knows of itself.

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
        """Whether a later pass is the same pass.

        Raises:
            ModelError: it is not.
        """
        if not torch.equal(lse.nan_to_num(), self.numbers[index].lse.nan_to_num()):
            raise ModelError(f"the model must be as it was in the run, got other numbers in {self.places[index].module}. Run it again.")
