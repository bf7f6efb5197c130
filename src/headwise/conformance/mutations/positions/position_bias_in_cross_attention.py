"""A bias of distances is added where one text looks at another, in which distances mean nothing."""

from headwise.attention.position import NOPE, Alibi
from headwise.conformance.mutations.mutable_layer import State, position
from headwise.conformance.mutations.mutation import Mutation


def everywhere(state: State):
    return Alibi() if state.problem.context is not None and state.problem.position == NOPE else position(state)


ENTRY = Mutation(
    code="M52",
    description="Where there is attention there are positions.",
    variants={"in cross-attention": {"position": everywhere}},
    detected_by=("key_permutation_invariance", "golden_values"),
    level="layer",
    harmless_when="the text looks at itself",
    reported_in=("huggingface/transformers#8518",),
)
