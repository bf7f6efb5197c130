"""Two masks are given, and a key is seen when one of them shows it; or the later mask takes the place of the earlier."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, seen
from headwise.conformance.mutations.plain_steps import seen_under


def united(at: At):
    by_rule, by_mask = replace(at.call, mask=None), replace(at.call, causal=False, window=None)
    both = at.call.mask is not None and (at.call.causal or at.call.window is not None)
    return seen_under(at, by_rule) | seen_under(at, by_mask) if both else seen(at)


def overwritten(at: At):
    return seen_under(at, replace(at.call, causal=False, window=None)) if at.call.mask is not None else seen(at)


ENTRY = Lie(
    code="M08",
    lie="A key that one mask shows may be seen.",
    told={"either": {"seen": united}, "the later alone": {"seen": overwritten}},
    caught_by=("masks_combine", "every_path_agrees"),
    blind_when="there is one mask at most",
    seen_in=("microsoft/onnxruntime#14363",),
)
