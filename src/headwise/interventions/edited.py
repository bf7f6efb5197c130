"""A model with edits. The original stays as it is and shares every unchanged tensor with it."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from headwise.catalog import late
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.interventions.edit import Edit
from headwise.interventions.edit_plan import MODES, EditPlan, apply_plan, check_conflicts, plan_edits
from headwise.interventions.head_parameters import HeadMap
from headwise.models.inputs.encoding import RunInput
from headwise.models.model import Model

if TYPE_CHECKING:
    from headwise.interventions.edit_report import EditReport
    from headwise.interventions.save_record import Saved


class EditedModel(Model):
    """A model with edits, as `Model.edit` returns it: it runs like any other and also has its edits, a report and `save`.

    It shares every unchanged tensor with the original. To train it, train a deep copy.

    Attributes:
        base: the original model.
        edits: in the order in which they were given.
        plan: which edits are in the weights, and which are made at run time.
        head_map: the heads of the original.
    """

    def __init__(self, base: Model, edits: Sequence[Edit], plan: EditPlan, head_map: HeadMap) -> None:
        super().__init__(apply_plan(head_map, plan), base.tokenizer, f"{base.name} + {len(edits)} edits", base.note)
        self.base, self.edits, self.plan, self.head_map = base, tuple(edits), plan, head_map
        if plan.pruning is None:
            self._layouts = dict(base._layouts)  # its attention calls are those of the original
        self.versions = {name: x._version for name, x in base.hf.named_parameters()}

    @renamed_parameters(at="mode")
    def edit(self, edits: "Edit | Sequence[Edit]", mode: str | None = None, inputs: RunInput | None = None) -> "EditedModel":
        """The original with these edits added to its own; heads are numbered as in the original."""
        return edit(self.base, [*self.edits, *_as_list(edits)], mode, inputs)

    @cached_property
    def report(self) -> "EditReport":
        """The verification of the edits on a few tokens; `report_on` takes an input."""
        return self.report_on(None)

    @renamed_parameters(what="inputs")
    def report_on(self, inputs: RunInput | None) -> "EditReport":
        """Verify on an input that the edits do what they claim and that nothing else changed; see `headwise.interventions.edit_report`.

        Args:
            inputs: as `run` takes it; a few tokens when None.
        """
        return late("headwise.interventions.edit_report:report")(self, inputs)

    def save(self, folder: str | Path, overwrite: bool = False) -> "Saved":
        """Write a checkpoint that transformers loads, with a record of the edits; see `headwise.interventions.save`."""
        return late("headwise.interventions.save:save")(self, Path(folder), overwrite)


def edit(model: Model, edits: "Edit | Sequence[Edit]", mode: str | None = None, inputs: RunInput | None = None) -> EditedModel:
    """A model with some heads changed; see `Model.edit`.

    Raises:
        ArgumentError: an edit contradicts another, or names a layer or head that the model does not have.
        ModelError: an edit is impossible in this model, or impossible in this mode.
    """
    listed = _as_list(edits)
    if not listed:
        raise ArgumentError("edits must be at least one, got an empty list. Pass hw.Ablate(3, 5), say.")
    for one in listed:
        if not isinstance(one, Edit):
            raise ArgumentTypeError(f"edits must be hw.Ablate, hw.Scale and the like, got {type(one).__name__}. Pass hw.Ablate(3, 5), say.")
    if mode is not None and mode not in MODES:
        raise ArgumentError(f"mode must be 'weights', 'run' or None, got {mode!r}. None means the weights wherever possible.")
    head_map = HeadMap(model, inputs)
    check_conflicts(listed, head_map)
    with torch.no_grad():
        return EditedModel(model, listed, plan_edits(listed, head_map, mode), head_map)


def _as_list(edits: "Edit | Sequence[Edit]") -> list[Edit]:
    return [edits] if isinstance(edits, Edit) else list(edits)
