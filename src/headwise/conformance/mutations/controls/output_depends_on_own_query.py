"""No fault: where a token is hidden from itself, its output still follows it, by its query."""

from headwise.conformance.mutations.mutable_layer import q
from headwise.conformance.mutations.mutation import Mutation

ENTRY = Mutation(
    code="E2",
    description="An output that follows a token that it may not see is a leak.",
    variants={"as it is": {"q": q}},
    detected_by=(),
    level="layer",
    harmless_when="it is original",
    reported_in=("pytorch/pytorch#27461",),
)
