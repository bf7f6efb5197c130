"""What is shown for each head is what all heads wrote together."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At


def summed(at: At):
    return at.out[:, None].expand_as(at.writes)


ENTRY = Lie(
    code="M42",
    lie="The result of a head is the result.",
    told={"the output": {"told": summed}},
    caught_by=("heads_write_separately", "what_is_shown_is_what_was_used"),
    level="layer",
    blind_when="there is one head and no bias",
    seen_in=("TransformerLensOrg/TransformerLens#1191",),
)
