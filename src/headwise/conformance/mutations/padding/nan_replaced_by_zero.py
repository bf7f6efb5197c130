"""The guard for rows that see nothing turns every NaN into 0, also one that came with a query."""

from headwise.conformance.mutations.mutable_attention import State, weights
from headwise.conformance.mutations.mutation import Mutation


def swept(state: State):
    return weights(state).nan_to_num(0.0)


ENTRY = Mutation(
    code="M63",
    description="A NaN means that a row sees nothing.",
    variants={"nan to 0": {"weights": swept}},
    detected_by=("nan_propagation",),
    harmless_when="queries are finite",
    reported_in=("pytorch/pytorch#141128",),
)
