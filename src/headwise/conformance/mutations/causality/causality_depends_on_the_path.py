"""The causal flag is honoured by one path only: without weights, without dropout, or with a mask beside it."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def dropped(when):
    def choose(at: At):
        return replace(call(at), causal=False) if when(at) else call(at)

    return choose


ENTRY = Lie(
    code="M20",
    lie="Whoever takes the slow path has given a mask.",
    told={
        "when weights are asked for": {"call": dropped(lambda at: at.how.weights)},
        "when dropout is configured": {"call": dropped(lambda at: at.problem.dropout > 0)},
        "when there is no mask": {"call": dropped(lambda at: at.problem.mask is None)},
    },
    caught_by=("every_path_agrees", "the_future_does_not_matter"),
    blind_when="attention is not causal",
    seen_in=("keras-team/keras#23038", "huggingface/transformers#30652", "facebookresearch/xformers#103", "pytorch/pytorch#99282"),
)
