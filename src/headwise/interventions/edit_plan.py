"""Where each edit of a list is made, and the edited model built from that plan."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from headwise.axes import Tensor
from headwise.errors import ArgumentError, ModelError
from headwise.interventions.edit import Edit, RuntimeChanges, Target, WeightChange
from headwise.interventions.edits.prune import Prune
from headwise.interventions.head_parameters import HeadMap
from headwise.interventions.prune_plan import PrunePlan, plan_pruning
from headwise.models.capture.call_hooks import CallHook, hook_calls
from headwise.models.hooks.derived_model import derive_model
from headwise.models.hooks.z_hooks import ZHook, with_z_hooks

MODES = ("weights", "run")
X = TypeVar("X")


@dataclass(frozen=True, eq=False)
class EditPlan:
    """Where the edits of a list are made.

    Attributes:
        weights: the edits made in the weights.
        run: the edits made at run time.
        weight_changes: the changes of parameters, in order.
        pruning: the rows and columns that pruned heads lose, if any head is pruned in the weights.
    """

    weights: tuple[Edit, ...]
    run: tuple[Edit, ...]
    weight_changes: tuple[WeightChange, ...]
    pruning: PrunePlan | None

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that change."""
        return list(dict.fromkeys([*(change.parameter for change in self.weight_changes), *(self.pruning.removed if self.pruning else ())]))

    def apply_to(self, parameter: str, value: Tensor) -> Tensor:
        """The new value of a parameter, from its old one."""
        for change in self.weight_changes:
            if change.parameter == parameter:
                value = change.apply(value)
        return self.pruning.shrink(parameter, value) if self.pruning else value


def plan_edits(edits: Sequence[Edit], head_map: HeadMap, mode: str | None) -> EditPlan:
    """Choose for each edit whether it is made in the weights or at run time.

    Args:
        mode: "weights", "run", or None for the weights wherever possible.

    Raises:
        ModelError: an edit is impossible, or impossible in this mode.
    """
    weights = [one for one in edits if mode != "run" and (mode == "weights" or one.weights_refusal(head_map) is None)]
    run = [one for one in edits if one not in weights]
    for one in weights:
        why = one.weights_refusal(head_map)
        if why is not None:
            raise ModelError(f"{one} cannot be made in the weights: {why}. Leave out mode='weights'.")
    for one in run:
        why, other = one.runtime_refusal(head_map), one.weights_refusal(head_map)
        if why is not None:
            raise ModelError(f"{one} cannot be made at run time: {why}{f'; nor in the weights: {other}' if other else ''}.")
    pruned = [one for one in weights if isinstance(one, Prune)]
    if pruned and run:
        raise ModelError(f"With Prune, all edits must be made in the weights, but {run[0]} is made at run time. Use Ablate instead of Prune.")
    changes = [change for one in weights for change in one.weight_changes(head_map)]
    return EditPlan(tuple(weights), tuple(run), tuple(changes), plan_pruning(head_map, pruned) if pruned else None)


def apply_plan(head_map: HeadMap, plan: EditPlan) -> nn.Module:
    """A model with the edits made; it shares every unchanged tensor with the original.

    Raises:
        ArgumentError: a weight would become infinite or NaN.
    """
    hf = head_map.hf
    tensors = {name: plan.apply_to(name, hf.get_parameter(name)) for name in plan.parameters}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise ArgumentError(f"The edits would make {name} infinite or NaN in {tensor.dtype}. Choose smaller factors.")
    edited: nn.Module = derive_model(hf, tensors)
    if plan.pruning is not None:
        plan.pruning.resize(edited)
    runtime = combine(one.runtime_changes(head_map) for one in plan.run)
    if runtime.z:
        heads = {place.index: place.heads for place in head_map.places}
        edited = with_z_hooks(edited, head_map.layout, heads, runtime.z)
    if runtime.calls:
        hook_calls(edited, {head_map.layout.sites[index].module: hook for index, hook in runtime.calls.items()})
    return edited


def combine(changes: Iterable[RuntimeChanges]) -> RuntimeChanges:
    """The run-time changes of several edits as one; where two change the same attention call, the later one is applied to the earlier one's result."""
    z: dict[int, ZHook] = {}
    calls: dict[int, CallHook] = {}
    for one in changes:
        for index, hook in one.z.items():
            z[index] = hook if index not in z else _then(z[index], hook)
        for index, hook in one.calls.items():
            calls[index] = hook if index not in calls else _then(calls[index], hook)
    return RuntimeChanges(z, calls)


def check_conflicts(edits: Sequence[Edit], head_map: HeadMap) -> None:
    """Check that no two edits change the same quantity of the same head.

    Raises:
        ArgumentError: two do.
    """
    taken: dict[Target, Edit] = {}
    for one in edits:
        for target in dict.fromkeys(one.targets(head_map)):
            if target in taken:
                raise ArgumentError(f"edits must not contradict one another, got {taken[target]} and {one}, which both change head {target[1]}. Leave one out.")
            taken[target] = one


def _then(first: Callable[[X], X], second: Callable[[X], X]) -> Callable[[X], X]:
    return lambda x: second(first(x))
