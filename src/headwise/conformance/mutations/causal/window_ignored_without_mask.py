"""The window is cut out of the mask, and where there is no mask there is no window; or the fallback path never hears of it."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def forgotten(when):
    def choose(state: State):
        return replace(call(state), window=None) if when(state) else call(state)

    return choose


ENTRY = Mutation(
    code="M24",
    description="A window is a kind of mask.",
    variants={
        "without a mask": {"call": forgotten(lambda state: state.problem.mask is None)},
        "with weights": {"call": forgotten(lambda state: state.mode.weights)},
    },
    detected_by=("window_size", "code_paths_agree"),
    harmless_when="the text is shorter than the window",
    reported_in=("jax-ml/jax#32300", "unslothai/unsloth#8253"),
)
