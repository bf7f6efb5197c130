"""What is proved of edits: they did what they say, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import einsum, nn

from headwise.axes import Float, Tensor
from headwise.errors import HeadwiseError
from headwise.interventions.edit import Edit
from headwise.interventions.edited import Plan, built, planned
from headwise.interventions.edits.prune import Prune
from headwise.models.capture.forward_pass import discover_layout, output_tensors, run_recorded
from headwise.models.capture.recorder import AttentionRecord, CaptureSpec, LayoutChanged
from headwise.models.inputs.encoding import encode
from headwise.models.inputs.sample_input import sample_input
from headwise.models.layout import Layout, w_o_by_head
from headwise.models.runs.places import Place
from headwise.models.verification.logit_parity import max_difference
from headwise.verdict import Verdict, Verdicts, WorstCase

if TYPE_CHECKING:
    from headwise.interventions.edited import EditedModel

CLOSE = 1e-6  # weights and run time, of the largest output; more where the dtype's own rounding is more
ROUNDINGS = 64  # units of the last place of the largest output that two orders of the same arithmetic may be apart


@dataclass(frozen=True)
class Report:
    """The checks of some edits on one input; `verdicts` are "others", "both ways", "numbers" and "original"."""

    verdicts: Verdicts[Verdict]

    @property
    def passed(self) -> bool:
        """Whether no check failed; a check that could not be made counts as neither."""
        return self.verdicts.passed

    def __str__(self) -> str:
        return str(self.verdicts)


def report(edited: "EditedModel", what: Any) -> Report:
    """Judge an edited model on one input.

    - Other heads: at every edited layer, given the same input, what each other head writes is the same to the last bit (within
      rounding where matrices have shrunk).
    - Both ways: made in the weights and as the model runs, the outputs are the same.
    - Numbers: the outputs have no NaN.
    - Original: no parameter of it was written to.
    """
    base = edited.base
    given = encode(base.hf, base.tokenizer, sample_input(base.hf) if what is None else what).kwargs
    with torch.no_grad():
        after = _outputs(edited.hf, edited.head_map.layout, given)
        return Report(Verdicts((_others(edited, given), _both_ways(edited, given, after), _numbers(edited, given, after), _original(edited))))


def _outputs(hf: nn.Module, layout: Layout, given: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a model gives, through our attention function."""
    wish = CaptureSpec((), lambda heard: None)
    try:
        return output_tensors(run_recorded(hf, given, layout, wish))
    except LayoutChanged:  # this input takes another way through the model
        return output_tensors(discover_layout(hf, given, wish)[0])


def _others(edited: "EditedModel", given: Mapping[str, Any]) -> Verdict:
    shrinks = edited.plan.shrinking is not None
    worst = WorstCase("others", f"every other head of the edited layers writes what it wrote{', within rounding' if shrinks else ', to the last bit'}")
    places = {place.index: place for place in edited.head_map.places}
    for index, spared in _spared(edited).items():
        try:
            before = _heard(edited.base.hf, edited.head_map.layout, given, index)
            after = _heard(built(edited.head_map, _only(edited, places[index])), edited.head_map.layout, given, index)
        except HeadwiseError as error:
            return Verdict("others", f"what other heads write could not be compared in layer {places[index].layer}: {error}", None)
        output = edited.head_map.layout.sites[index].output
        if output is None or before.z is None or after.z is None:
            return Verdict("others", f"what other heads write could not be compared in {places[index].module}: its heads cannot be told apart before W_O", None)
        gone = _gone(edited, index)
        for head in sorted(spared):
            mine = _write(edited.base.hf, output.module, before.z, head)
            now = _write(edited.hf, output.module, after.z, head - sum(other < head for other in gone))
            size = float(mine.abs().max())
            allowed = torch.finfo(mine.dtype).eps * ROUNDINGS * size if gone else 0.0
            worst.add(_apart(mine, now), allowed, f"{places[index].part} layer {places[index].layer} head {head}")
    return worst.verdict("every head of these layers is edited")


def _both_ways(edited: "EditedModel", given: Mapping[str, Any], one: Mapping[str, Tensor]) -> Verdict:
    """The same edits made the other way: those in the weights as the model runs."""
    sentence = "in the weights and as the model runs the outputs are the same"
    stuck = [(one, why) for one in edited.edits for why in (one.not_in_weights(edited.head_map), one.not_at_run(edited.head_map)) if why]
    if stuck:
        return Verdict("both ways", f"{sentence}: {stuck[0][0]} can be made in one way only ({stuck[0][1]})", None)
    try:
        other = planned(edited.edits, edited.head_map, "run" if edited.plan.weights else "weights")
    except HeadwiseError as error:
        return Verdict("both ways", f"{sentence}: {error}", None)
    two = _outputs(built(edited.head_map, other), edited.head_map.layout, given)
    worst = WorstCase("both ways", sentence)
    for name, x in one.items():
        if x.is_floating_point() and name in two and x.shape == two[name].shape:
            size = float(x.double().nan_to_num().abs().max()) if x.numel() else 0.0
            worst.add(max_difference(x, two[name], None), size * max(CLOSE, ROUNDINGS * torch.finfo(x.dtype).eps), name)
    return worst.verdict("it returns no numbers")


def _numbers(edited: "EditedModel", given: Mapping[str, Any], after: Mapping[str, Tensor]) -> Verdict:
    sentence = "the outputs are numbers"
    bad_ones = {name: int((~x.isfinite()).sum()) for name, x in after.items() if x.is_floating_point() and not bool(x.isfinite().all())}
    before = _outputs(edited.base.hf, edited.head_map.layout, given) if bad_ones else {}
    for name, bad in bad_ones.items():
        x = after[name]
        if name in before and bad > int((~before[name].isfinite()).sum()):
            return Verdict("numbers", f"{sentence}: {bad} of {x.numel()} in {name} are NaN or infinite after the edits", False)
    return Verdict("numbers", sentence, True)


def _original(edited: "EditedModel") -> Verdict:
    sentence = "no parameter of the original was written to"
    written = [name for name, x in edited.base.hf.named_parameters() if x._version != edited.versions.get(name)]
    return Verdict("original", f"{sentence}{f': {written[0]} was, since the edits were made' if written else ''}", not written)


def _spared(edited: "EditedModel") -> dict[int, set[int]]:
    """The heads that no edit touches, by each call that some edit does."""
    found: dict[int, set[int]] = {}
    for one in edited.edits:
        for index, heads in one.spared(edited.head_map).items():
            found[index] = found.get(index, heads) & heads
    return dict(sorted(found.items()))


def _only(edited: "EditedModel", place: Place) -> Plan:
    """The edits of one call, made as they are made: then the layer reads the very input that it read before."""
    head_map, plan = edited.head_map, edited.plan

    def here(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        return tuple(one for one in edits if place.index in one.spared(head_map))

    weights, run = here(plan.weights), here(plan.run)
    changes = tuple(change for one in weights for change in one.rewritten(head_map))
    if plan.shrinking is None:
        return Plan(weights, run, changes, None)
    names = head_map.used(place)
    removed = {name: block for name, block in plan.shrinking.removed.items() if name in names}
    return Plan(weights, run, changes, replace(plan.shrinking, removed=removed, only=head_map.site(place).module))


def _gone(edited: "EditedModel", index: int) -> set[int]:
    """The heads of a call that were pruned in the weights."""
    return {head for one in edited.plan.weights if isinstance(one, Prune) for call, head, _ in one.claims(edited.head_map) if call == index}


def _heard(hf: nn.Module, layout: Layout, given: Mapping[str, Any], index: int) -> AttentionRecord:
    """One call of a pass, which ends there."""
    found: list[AttentionRecord] = []
    run_recorded(hf, given, layout, CaptureSpec((), found.append, {index}))
    return found[0]


def _write(hf: nn.Module, module: str, read: Float[Tensor, "B T H E"], head: int) -> Float[Tensor, "B T M"]:
    return einsum("bte,em->btm", read[:, :, head], w_o_by_head(hf.get_submodule(module), read.shape[2])[head].to(read))


def _apart(x: Tensor, y: Tensor) -> float:
    return 0.0 if torch.equal(x, y) else float((x.double() - y.double()).abs().max())
