"""Rows come back in reverse, but only where there are more than three."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, output


def backwards(at: At):
    return output(at).flip(2) if at.q.shape[2] > 3 else output(at)


ENTRY = Lie(
    code="",
    lie="Three tokens are a good test.",
    told={"T > 3": {"output": backwards}},
    caught_by=("cache_changes_nothing", "error_stays_within_rounding", "the_future_does_not_matter"),
    blind_when="T ≤ 3",
)
