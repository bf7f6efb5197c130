"""Going back, dropout multiplies with p where it divides by 1 - p going forward."""

from headwise.attention.dense import weighted_sum
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, z
from headwise.conformance.mutations.plain_steps import slower


def too_small(at: At):
    p = at.problem.dropout
    return weighted_sum(at.kept, slower(at.v, p * (1 - p)), at.seen) if at.how.training and p else z(at)


ENTRY = Lie(
    code="M67",
    lie="p is p.",
    told={"dV times p(1 - p)": {"z": too_small}},
    caught_by=("gradients_are_slopes", "dropout_is_for_training"),
    blind_when="dropout is off",
    seen_in=("NVIDIA/apex#816",),
)
