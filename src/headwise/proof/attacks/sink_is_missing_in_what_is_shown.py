"""The weights that are shown are computed again, and the sink is forgotten there."""

from headwise.attention.materialise import softmax
from headwise.proof.call_way import At
from headwise.proof.lie import Lie


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
