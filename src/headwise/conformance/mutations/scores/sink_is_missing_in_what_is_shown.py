"""The weights that are shown are computed again, and the sink is forgotten there."""

from headwise.attention.dense import softmax
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def without_sink(at: At):
    return softmax(at.scores)[0]


ENTRY = Lie(
    code="M46",
    lie="Rows sum to 1.",
    told={"computed again": {"reported": without_sink}},
    caught_by=("sink_takes_its_share", "what_is_shown_is_what_was_used"),
    blind_when="there is no sink",
    seen_in=("TransformerLensOrg/TransformerLens#1621",),
)
