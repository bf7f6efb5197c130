"""Two masks are given, and a key is seen when one of them shows it; or the later mask takes the place of the earlier."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, visible
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import visible_under


def united(state: State):
    by_rule, by_mask = replace(state.call, mask=None), replace(state.call, causal=False, window=None)
    both = state.call.mask is not None and (state.call.causal or state.call.window is not None)
    return visible_under(state, by_rule) | visible_under(state, by_mask) if both else visible(state)


def overwritten(state: State):
    return visible_under(state, replace(state.call, causal=False, window=None)) if state.call.mask is not None else visible(state)


ENTRY = Mutation(
    code="M08",
    description="A key that one mask shows may be seen.",
    variants={"either": {"visible": united}, "the later alone": {"visible": overwritten}},
    detected_by=("masks_combine", "code_paths_agree"),
    harmless_when="there is one mask at most",
    reported_in=("microsoft/onnxruntime#14363",),
)
