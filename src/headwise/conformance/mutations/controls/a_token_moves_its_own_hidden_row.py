"""No fault: where a token is hidden from itself, its output still follows it, by its query."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import q

ENTRY = Lie(
    code="E2",
    lie="An output that follows a token that it may not see is a leak.",
    told={"as it is": {"q": q}},
    caught_by=(),
    level="layer",
    blind_when="it is honest",
    seen_in=("pytorch/pytorch#27461",),
)
