"""Scores are not divided by √D: still softmaxes, only too sharp. A head alone is no longer attention as it is defined."""

from flint import arb_mat

from headwise.conformance.mutations.mutation import Mutation


def score(q: arb_mat, k: arb_mat) -> arb_mat:
    return q * k.transpose()


ENTRY = Mutation(
    description="Scores need no scale.",
    variants={"": {"score": score}},
    level="exact",
    detected_by=("single_head_equivalence",),
    harmless_when="a head is one feature wide",
    reported_in=("mlc-ai/mlc-llm#3426",),
)
