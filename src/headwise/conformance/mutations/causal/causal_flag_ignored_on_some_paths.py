"""The causal flag is honoured by one path only: without weights, without dropout, or with a mask beside it."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def dropped(when):
    def choose(state: State):
        return replace(call(state), causal=False) if when(state) else call(state)

    return choose


ENTRY = Mutation(
    code="M20",
    description="Whoever takes the slow path has given a mask.",
    variants={
        "when weights are asked for": {"call": dropped(lambda state: state.mode.weights)},
        "when dropout is configured": {"call": dropped(lambda state: state.problem.dropout > 0)},
        "when there is no mask": {"call": dropped(lambda state: state.problem.mask is None)},
    },
    detected_by=("code_paths_agree", "causality"),
    harmless_when="attention is not causal",
    reported_in=("keras-team/keras#23038", "huggingface/transformers#30652", "facebookresearch/xformers#103", "pytorch/pytorch#99282"),
)
