"""Going back, dropout multiplies with p where it divides by 1 - p going forward."""

from headwise.attention.dense import weighted_sum
from headwise.conformance.mutations.mutable_attention import State, z
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import with_gradient_factor


def too_small(state: State):
    p = state.problem.dropout
    return weighted_sum(state.used_weights, with_gradient_factor(state.v, p * (1 - p)), state.visible) if state.mode.training and p else z(state)


ENTRY = Mutation(
    code="M67",
    description="p is p.",
    variants={"dV times p(1 - p)": {"z": too_small}},
    detected_by=("gradients_are_correct", "dropout_only_in_training"),
    harmless_when="dropout is off",
    reported_in=("NVIDIA/apex#816",),
)
