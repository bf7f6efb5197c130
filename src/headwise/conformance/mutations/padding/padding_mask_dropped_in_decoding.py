"""The padding mask goes to the first pass over the prompt and to no later step."""

from headwise.conformance.mutations.mutable_layer import State, options
from headwise.conformance.mutations.mutation import Mutation


def first_pass_only(state: State):
    return {**options(state), "mask": options(state)["mask"] if state.past is None else None}


ENTRY = Mutation(
    code="M56",
    description="Padding is a matter of the prompt.",
    variants={"no mask in later steps": {"options": first_pass_only}},
    detected_by=("padding_invariance", "batch_independence"),
    level="layer",
    harmless_when="no text is padded on the left",
    reported_in=("TransformerLensOrg/TransformerLens#1005",),
)
