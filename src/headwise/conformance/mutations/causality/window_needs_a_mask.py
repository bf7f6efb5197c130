"""The window is cut out of the mask, and where there is no mask there is no window; or the fallback path never hears of it."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def forgotten(when):
    def choose(at: At):
        return replace(call(at), window=None) if when(at) else call(at)

    return choose


ENTRY = Lie(
    code="M24",
    lie="A window is a kind of mask.",
    told={"without a mask": {"call": forgotten(lambda at: at.problem.mask is None)}, "with weights": {"call": forgotten(lambda at: at.how.weights)}},
    caught_by=("window_counts", "every_path_agrees"),
    blind_when="the text is shorter than the window",
    seen_in=("jax-ml/jax#32300", "unslothai/unsloth#8253"),
)
