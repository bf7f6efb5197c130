"""The output is given the width of the query: values that are narrower are filled up, wider ones cut."""

from torch.nn.functional import pad

from headwise.conformance.mutations.mutable_attention import State, output
from headwise.conformance.mutations.mutation import Mutation


def as_wide(state: State):
    return pad(output(state), (0, state.problem.query.shape[3] - state.problem.value.shape[3]))


ENTRY = Mutation(
    code="M66",
    description="Values are as wide as queries.",
    variants={"D for E": {"output": as_wide}},
    detected_by=("output_shape",),
    harmless_when="E = D",
    reported_in=("pytorch/pytorch#176767",),
)
