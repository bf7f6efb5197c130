"""Verification of edits: they do what they claim, and nothing else changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import einsum, nn

from headwise.axes import Float, Tensor
from headwise.errors import HeadwiseError
from headwise.interventions.edit import Edit
from headwise.interventions.edit_plan import EditPlan, apply_plan, plan_edits
from headwise.interventions.edits.prune import Prune
from headwise.models.capture.forward_pass import discover_layout, output_tensors, run_recorded
from headwise.models.capture.recorder import AttentionRecord, CaptureSpec, LayoutChanged
from headwise.models.inputs.encoding import RunInput, encode
from headwise.models.inputs.sample_input import sample_input
from headwise.models.layout import Layout, w_o_by_head
from headwise.models.runs.places import Place
from headwise.models.verification.logit_parity import max_difference
from headwise.verdict import Verdict, Verdicts, WorstCase

if TYPE_CHECKING:
    from headwise.interventions.edited import EditedModel

RELATIVE_TOLERANCE = 1e-6  # of the largest output, between the edits in the weights and at run time; more where the dtype's own rounding is more
ROUNDING_UNITS = 64  # units in the last place of the largest output by which two orders of the same arithmetic may differ


@dataclass(frozen=True)
class EditReport:
    """The checks of some edits on one input; `verdicts` are "others", "both ways", "numbers" and "original"."""

    verdicts: Verdicts[Verdict]

    @property
    def passed(self) -> bool:
        """Whether no check failed; a check that could not be made counts as neither."""
        return self.verdicts.passed

    def __str__(self) -> str:
        return str(self.verdicts)


def report(edited: "EditedModel", inputs: RunInput | None) -> EditReport:
    """Check an edited model on one input.

    - others: in every edited layer, given the same input, the write of every other head is the same to the last bit (within rounding
      where matrices have shrunk).
    - both ways: made in the weights and made at run time, the edits give the same outputs.
    - numbers: the outputs have no NaN.
    - original: no parameter of the original model was written to.
    """
    base = edited.base
    kwargs = encode(base.hf, base.tokenizer, sample_input(base.hf) if inputs is None else inputs).kwargs
    with torch.no_grad():
        after = _outputs(edited.hf, edited.head_map.layout, kwargs)
        return EditReport(Verdicts((_others(edited, kwargs), _both_ways(edited, kwargs, after), _numbers(edited, kwargs, after), _original(edited))))


def _outputs(hf: nn.Module, layout: Layout, kwargs: Mapping[str, Any]) -> dict[str, Tensor]:
    """A model's outputs, computed with headwise's attention function."""
    spec = CaptureSpec((), lambda record: None)
    try:
        return output_tensors(run_recorded(hf, kwargs, layout, spec))
    except LayoutChanged:  # the model calls its modules in another order on this input
        return output_tensors(discover_layout(hf, kwargs, spec)[0])


def _others(edited: "EditedModel", kwargs: Mapping[str, Any]) -> Verdict:
    pruned_any = edited.plan.pruning is not None
    worst = WorstCase("others", f"every other head of the edited layers writes what it wrote{', within rounding' if pruned_any else ', to the last bit'}")
    places = {place.index: place for place in edited.head_map.places}
    for index, untouched in _untouched(edited).items():
        try:
            before = _record(edited.base.hf, edited.head_map.layout, kwargs, index)
            after = _record(apply_plan(edited.head_map, _only(edited, places[index])), edited.head_map.layout, kwargs, index)
        except HeadwiseError as error:
            return Verdict("others", f"the writes of the other heads could not be compared in layer {places[index].layer}: {error}", None)
        output = edited.head_map.layout.sites[index].output
        if output is None or before.z is None or after.z is None:
            return Verdict(
                "others", f"the writes of the other heads could not be compared in {places[index].module}: heads cannot be separated before W_O", None
            )
        pruned = _pruned(edited, index)
        for head in sorted(untouched):
            old = _write(edited.base.hf, output.module, before.z, head)
            new = _write(edited.hf, output.module, after.z, head - sum(other < head for other in pruned))
            size = float(old.abs().max())
            allowed = torch.finfo(old.dtype).eps * ROUNDING_UNITS * size if pruned else 0.0
            worst.add(_difference(old, new), allowed, f"{places[index].part} layer {places[index].layer} head {head}")
    return worst.verdict("every head of these layers is edited")


def _both_ways(edited: "EditedModel", kwargs: Mapping[str, Any], outputs: Mapping[str, Tensor]) -> Verdict:
    """Make the edits the other way: those that are in the weights at run time."""
    sentence = "made in the weights and made at run time, the edits give the same outputs"
    single = [(one, why) for one in edited.edits for why in (one.weights_refusal(edited.head_map), one.runtime_refusal(edited.head_map)) if why]
    if single:
        return Verdict("both ways", f"{sentence}: {single[0][0]} can be made in one way only ({single[0][1]})", None)
    try:
        other = plan_edits(edited.edits, edited.head_map, "run" if edited.plan.weights else "weights")
    except HeadwiseError as error:
        return Verdict("both ways", f"{sentence}: {error}", None)
    others = _outputs(apply_plan(edited.head_map, other), edited.head_map.layout, kwargs)
    worst = WorstCase("both ways", sentence)
    for name, x in outputs.items():
        if x.is_floating_point() and name in others and x.shape == others[name].shape:
            size = float(x.double().nan_to_num().abs().max()) if x.numel() else 0.0
            worst.add(max_difference(x, others[name], None), size * max(RELATIVE_TOLERANCE, ROUNDING_UNITS * torch.finfo(x.dtype).eps), name)
    return worst.verdict("the model returns no numbers")


def _numbers(edited: "EditedModel", kwargs: Mapping[str, Any], outputs: Mapping[str, Tensor]) -> Verdict:
    sentence = "the outputs are numbers"
    bad = {name: int((~x.isfinite()).sum()) for name, x in outputs.items() if x.is_floating_point() and not bool(x.isfinite().all())}
    before = _outputs(edited.base.hf, edited.head_map.layout, kwargs) if bad else {}
    for name, count in bad.items():
        if name in before and count > int((~before[name].isfinite()).sum()):
            return Verdict("numbers", f"{sentence}: {count} of {outputs[name].numel()} in {name} are NaN or infinite after the edits", False)
    return Verdict("numbers", sentence, True)


def _original(edited: "EditedModel") -> Verdict:
    sentence = "no parameter of the original was written to"
    written = [name for name, x in edited.base.hf.named_parameters() if x._version != edited.versions.get(name)]
    return Verdict("original", f"{sentence}{f': {written[0]} was, since the edits were made' if written else ''}", not written)


def _untouched(edited: "EditedModel") -> dict[int, set[int]]:
    """The heads that no edit changes, for each attention call that some edit changes."""
    found: dict[int, set[int]] = {}
    for one in edited.edits:
        for index, heads in one.untouched_heads(edited.head_map).items():
            found[index] = found.get(index, heads) & heads
    return dict(sorted(found.items()))


def _only(edited: "EditedModel", place: Place) -> EditPlan:
    """The plan restricted to the edits of one layer, so that the layer gets the same input as in the original."""
    head_map, plan = edited.head_map, edited.plan

    def here(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        return tuple(one for one in edits if place.index in one.untouched_heads(head_map))

    weights, run = here(plan.weights), here(plan.run)
    changes = tuple(change for one in weights for change in one.weight_changes(head_map))
    if plan.pruning is None:
        return EditPlan(weights, run, changes, None)
    names = head_map.parameters_of(place)
    removed = {name: block for name, block in plan.pruning.removed.items() if name in names}
    return EditPlan(weights, run, changes, replace(plan.pruning, removed=removed, only=head_map.site(place).module))


def _pruned(edited: "EditedModel", index: int) -> set[int]:
    """The heads of an attention call that were pruned in the weights."""
    return {head for one in edited.plan.weights if isinstance(one, Prune) for call, head, _ in one.targets(edited.head_map) if call == index}


def _record(hf: nn.Module, layout: Layout, kwargs: Mapping[str, Any], index: int) -> AttentionRecord:
    """One attention call of a pass, which is stopped there."""
    found: list[AttentionRecord] = []
    run_recorded(hf, kwargs, layout, CaptureSpec((), found.append, {index}))
    return found[0]


def _write(hf: nn.Module, module: str, z: Float[Tensor, "B T H E"], head: int) -> Float[Tensor, "B T M"]:
    return einsum("bte,em->btm", z[:, :, head], w_o_by_head(hf.get_submodule(module), z.shape[2])[head].to(z))


def _difference(x: Tensor, y: Tensor) -> float:
    return 0.0 if torch.equal(x, y) else float((x.double() - y.double()).abs().max())
