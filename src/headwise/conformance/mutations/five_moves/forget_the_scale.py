"""Scores are not divided by √D: still softmaxes, only too sharp. A head alone is no longer attention as it is defined."""

from flint import arb_mat

from headwise.conformance.mutations.attack import Attack


def score(q: arb_mat, k: arb_mat) -> arb_mat:
    return q * k.transpose()


ENTRY = Attack(
    lie="Scores need no scale.",
    instead={"score": score},
    caught_by=("one_head_is_single",),
    blind_when="a head is one feature wide",
    seen_in="https://github.com/mlc-ai/mlc-llm/pull/3426",
)
