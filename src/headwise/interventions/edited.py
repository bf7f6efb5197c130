"""A model with edits: the original untouched, every tensor that no edit touches shared with it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headwise.axes import Tensor
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.interventions.edit import Claim, Edit, Rewritten, RuntimeChanges
from headwise.interventions.edits.prune import Prune
from headwise.interventions.head_parameters import HeadMap
from headwise.interventions.prune_plan import PrunePlan, shrinking
from headwise.models.capture.call_hooks import CallHook, hook_calls
from headwise.models.hooks.derived_model import derive_model
from headwise.models.hooks.z_hooks import ZHook, with_z_hooks
from headwise.models.model import Model

if TYPE_CHECKING:
    from headwise.interventions.edit_report import Report
    from headwise.interventions.save_record import Saved

MODES = ("weights", "run")


@dataclass(frozen=True, eq=False)
class Plan:
    """How a list of edits is made.

    Attributes:
        weights: the edits that are made in the weights.
        run: those that are made as the model runs.
        rewritten: the parameters that are made anew, in turn.
        shrinking: what goes with pruned heads, if any are.
    """

    weights: tuple[Edit, ...]
    run: tuple[Edit, ...]
    rewritten: tuple[Rewritten, ...]
    shrinking: PrunePlan | None

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that are not what they were."""
        return list(dict.fromkeys([*(change.parameter for change in self.rewritten), *(self.shrinking.removed if self.shrinking else ())]))

    def made(self, parameter: str, whole: Tensor) -> Tensor:
        """A parameter as the edits leave it, from what it was."""
        for change in self.rewritten:
            if change.parameter == parameter:
                whole = change.make(whole)
        return self.shrinking.shrunk(parameter, whole) if self.shrinking else whole


class EditedModel(Model):
    """What `Model.edit` gives: a model like any other, which also knows its edits.

    It shares every tensor that no edit touches with the original: train a deep copy of it, not it.

    Attributes:
        base: the original.
        edits: in the order in which they were given.
        plan: which are in the weights, and which are made as it runs.
    """

    def __init__(self, base: Model, edits: Sequence[Edit], plan: Plan, head_map: HeadMap) -> None:
        super().__init__(built(head_map, plan), base.tokenizer, f"{base.name} + {len(edits)} edits", base.note)
        self.base, self.edits, self.plan, self.head_map = base, tuple(edits), plan, head_map
        if plan.shrinking is None:
            self._layouts = dict(base._layouts)  # its calls are where they were
        self.versions = {name: x._version for name, x in base.hf.named_parameters()}

    @renamed_parameters(at="mode")
    def edit(self, edits: "Edit | Sequence[Edit]", mode: str | None = None, inputs: Any = None) -> "EditedModel":
        """The original with these edits besides; heads are counted as in the original."""
        return edit(self.base, [*self.edits, *_list(edits)], mode, inputs)

    @cached_property
    def report(self) -> "Report":
        """What was proved of the edits on a few tokens; `report_on` takes a text."""
        return self.report_on(None)

    def report_on(self, what: Any) -> "Report":
        """Prove on this input that the edits are what they say, and that nothing else changed.

        Args:
            what: as `run` takes it; a few tokens when None.
        """
        from headwise.interventions.edit_report import report

        return report(self, what)

    def save(self, folder: str | Path, overwrite: bool = False) -> "Saved":
        """Write a checkpoint that transformers loads, with a record of what was done; see `headwise.interventions.save`."""
        from headwise.interventions.save import save

        return save(self, Path(folder), overwrite)


def edit(model: Model, edits: "Edit | Sequence[Edit]", mode: str | None = None, inputs: Any = None) -> EditedModel:
    """A model with some heads changed; `Model.edit` says more.

    Raises:
        ArgumentError: an edit that contradicts another, or that names no layer or head of the model.
        ModelError: an edit that cannot be made in this model, or not in the way asked for.
    """
    listed = _list(edits)
    if not listed:
        raise ArgumentError("edits must be at least one, got an empty list. Pass hw.Ablate(3, 5), say.")
    for one in listed:
        if not isinstance(one, Edit):
            raise ArgumentTypeError(f"edits must be hw.Ablate, hw.Scale and the like, got {type(one).__name__}. Pass hw.Ablate(3, 5), say.")
    if mode is not None and mode not in MODES:
        raise ArgumentError(f"mode must be 'weights', 'run' or None, got {mode!r}. None chooses the weights wherever that can be.")
    head_map = HeadMap(model, inputs)
    _check_apart(listed, head_map)
    with torch.no_grad():
        return EditedModel(model, listed, planned(listed, head_map, mode), head_map)


def planned(edits: Sequence[Edit], head_map: HeadMap, mode: str | None) -> Plan:
    """Which edits are made where.

    Raises:
        ModelError: one cannot be made at all, or not in the way asked for.
    """
    weights = [one for one in edits if mode != "run" and (mode == "weights" or one.not_in_weights(head_map) is None)]
    run = [one for one in edits if one not in weights]
    for one in weights:
        why = one.not_in_weights(head_map)
        if why is not None:
            raise ModelError(f"{one} must be possible in the weights, got none where it would be: {why}. Leave out mode='weights'.")
    for one in run:
        why, other = one.not_at_run(head_map), one.not_in_weights(head_map)
        if why is not None:
            raise ModelError(f"{one} must be possible as the model runs, got none where it would be: {why}{f'; nor in the weights: {other}' if other else ''}.")
    prunes = [one for one in weights if isinstance(one, Prune)]
    if prunes and run:
        raise ModelError(f"edits besides Prune must be possible in the weights, got {run[0]}, made as the model runs. Use Ablate.")
    changes = [change for one in weights for change in one.rewritten(head_map)]
    return Plan(tuple(weights), tuple(run), tuple(changes), shrinking(head_map, prunes) if prunes else None)


def built(head_map: HeadMap, plan: Plan) -> nn.Module:
    """The model with the plan carried out."""
    hf = head_map.hf
    tensors = {name: plan.made(name, hf.get_parameter(name)) for name in plan.parameters}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise ArgumentError(f"edits must leave numbers in {name}, got infinity or NaN in {tensor.dtype}. Choose smaller factors.")
    other: Any = derive_model(hf, tensors)
    if plan.shrinking is not None:
        plan.shrinking.resize(other)
    at_run = joined(one.at_run(head_map) for one in plan.run)
    if at_run.words:
        heads = {place.index: place.heads for place in head_map.places}
        other = with_z_hooks(other, head_map.layout, heads, at_run.words)
    if at_run.calls:
        hook_calls(other, {head_map.layout.sites[index].module: change for index, change in at_run.calls.items()})
    return other


def joined(edits: Iterable[RuntimeChanges]) -> RuntimeChanges:
    """Several edits, each as `RuntimeChanges`, as one: where two change the same call, one after the other."""
    words: dict[int, ZHook] = {}
    calls: dict[int, CallHook] = {}
    for one in edits:
        for index, change in one.words.items():
            words[index] = change if index not in words else _after(words[index], change)
        for index, change in one.calls.items():
            calls[index] = change if index not in calls else _after(calls[index], change)
    return RuntimeChanges(words, calls)


def _after(first: Any, second: Any) -> Any:
    return lambda x: second(first(x))


def _check_apart(edits: Sequence[Edit], head_map: HeadMap) -> None:
    """Whether no two edits lay hands on the same."""
    taken: dict[Claim, Edit] = {}
    for one in edits:
        for claim in dict.fromkeys(one.claims(head_map)):
            if claim in taken:
                raise ArgumentError(f"edits must not contradict one another, got {taken[claim]} and {one}, which both change head {claim[1]}. Leave one out.")
            taken[claim] = one


def _list(edits: Any) -> list[Edit]:
    return [edits] if isinstance(edits, Edit) else list(edits)
