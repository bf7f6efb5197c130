"""The softmax runs over the queries; or over the heads, or over the batch."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def over(axis: int):
    def normalise(state: State):
        return state.scores.softmax(axis).nan_to_num()

    return normalise


ENTRY = Mutation(
    code="M39",
    description="An axis is an axis.",
    variants={"queries": {"weights": over(-2)}, "heads": {"weights": over(1)}, "batch": {"weights": over(0)}},
    detected_by=("rows_sum_to_one",),
    harmless_when="the axis has length S and the scores are symmetric",
    reported_in=("labmlai/annotated_deep_learning_paper_implementations#146", "nerminnuraydogan/vision-transformer#1"),
)
