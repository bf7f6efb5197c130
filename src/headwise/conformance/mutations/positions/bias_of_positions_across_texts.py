"""A bias of distances is added where one text looks at another, in which distances mean nothing."""

from headwise.attention.position import NOPE, Alibi
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, position


def everywhere(at: At):
    return Alibi() if at.problem.context is not None and at.problem.position == NOPE else position(at)


ENTRY = Lie(
    code="M52",
    lie="Where there is attention there are positions.",
    told={"in cross-attention": {"position": everywhere}},
    caught_by=("order_of_keys_does_not_matter", "golden_numbers"),
    level="layer",
    blind_when="the text looks at itself",
    seen_in=("huggingface/transformers#8518",),
)
