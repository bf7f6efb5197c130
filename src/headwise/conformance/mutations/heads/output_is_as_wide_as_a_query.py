"""The output is given the width of the query: values that are narrower are filled up, wider ones cut."""

from torch.nn.functional import pad

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, output


def as_wide(at: At):
    return pad(output(at), (0, at.problem.query.shape[3] - at.problem.value.shape[3]))


ENTRY = Lie(
    code="M66",
    lie="Values are as wide as queries.",
    told={"D for E": {"output": as_wide}},
    caught_by=("output_has_the_right_shape",),
    blind_when="E = D",
    seen_in=("pytorch/pytorch#176767",),
)
