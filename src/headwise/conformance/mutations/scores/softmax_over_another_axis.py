"""The softmax runs over the queries; or over the heads, or over the batch."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def over(axis: int):
    def normalise(at: At):
        return at.scores.softmax(axis).nan_to_num()

    return normalise


ENTRY = Lie(
    code="M39",
    lie="An axis is an axis.",
    told={"queries": {"weights": over(-2)}, "heads": {"weights": over(1)}, "batch": {"weights": over(0)}},
    caught_by=("rows_sum_to_one",),
    blind_when="the axis has length S and the scores are symmetric",
    seen_in=("labmlai/annotated_deep_learning_paper_implementations#146", "nerminnuraydogan/vision-transformer#1"),
)
