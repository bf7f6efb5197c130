"""The weights that are shown in training are those that dropout left."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def kept(at: At):
    return at.kept


ENTRY = Lie(
    code="M40",
    lie="What was used is what is shown, noise and all.",
    told={"kept": {"reported": kept}},
    caught_by=("rows_sum_to_one", "what_is_shown_is_what_was_used"),
    blind_when="dropout is off, or it is declared",
    seen_in=("pytorch/pytorch#42929",),
)
