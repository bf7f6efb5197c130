"""The sink is counted twice, not at all, once for all heads, or divided away again."""

from math import log

from headwise.attention.dense import softmax
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def with_sink(change):
    def normalise(state: State):
        return softmax(state.scores, None if state.call.sink is None else change(state.call.sink))[0]

    return normalise


def twice_where_half_is_hidden(state: State):
    """Two splits of the keys; the one that sees nothing counts the sink again."""
    if state.call.sink is None:
        return softmax(state.scores)[0]
    half = state.visible.shape[3] // 2
    idle = ~state.visible[..., :half].any(-1) | ~state.visible[..., half:].any(-1)
    once, twice = (softmax(state.scores, state.call.sink + extra)[0] for extra in (0.0, log(2)))
    return twice.where(idle[..., None], once)


def renormalised(state: State):
    original = softmax(state.scores, state.call.sink)[0]
    return original if state.call.sink is None else (original / original.sum(-1, keepdim=True)).nan_to_num()


ENTRY = Mutation(
    code="M54",
    description="A sink is a detail.",
    variants={
        "twice": {"weights": with_sink(lambda sink: sink + log(2))},
        "twice where a split is idle": {"weights": twice_where_half_is_hidden},
        "missing": {"weights": with_sink(lambda sink: None)},
        "that of head 0": {"weights": with_sink(lambda sink: sink[:1].expand_as(sink))},
        "divided away": {"weights": renormalised},
    },
    detected_by=("attention_sink",),
    harmless_when="there is no sink",
    reported_in=("ROCm/rocm-libraries#12229",),
)
