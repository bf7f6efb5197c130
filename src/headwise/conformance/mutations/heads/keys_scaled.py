"""The layer multiplies its keys with a factor that nobody asked for."""

from headwise.conformance.mutations.mutable_layer import State, project_k
from headwise.conformance.mutations.mutation import Mutation


def stretched(state: State):
    return 1.5 * project_k(state)


ENTRY = Mutation(
    code="",
    description="A constant is learned away.",
    variants={"1.5 k": {"project_k": stretched}},
    detected_by=("default_scale", "error_within_rounding", "output_projection_per_head"),
    level="layer",
    harmless_when="a row sees one key",
)
