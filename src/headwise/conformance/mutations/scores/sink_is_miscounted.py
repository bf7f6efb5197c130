"""The sink is counted twice, not at all, once for all heads, or divided away again."""

from math import log

from headwise.attention.dense import softmax
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def with_sink(change):
    def normalise(at: At):
        return softmax(at.scores, None if at.call.sink is None else change(at.call.sink))[0]

    return normalise


def twice_where_half_is_hidden(at: At):
    """Two splits of the keys; the one that sees nothing counts the sink again."""
    if at.call.sink is None:
        return softmax(at.scores)[0]
    half = at.seen.shape[3] // 2
    idle = ~at.seen[..., :half].any(-1) | ~at.seen[..., half:].any(-1)
    once, twice = (softmax(at.scores, at.call.sink + extra)[0] for extra in (0.0, log(2)))
    return twice.where(idle[..., None], once)


def renormalised(at: At):
    honest = softmax(at.scores, at.call.sink)[0]
    return honest if at.call.sink is None else (honest / honest.sum(-1, keepdim=True)).nan_to_num()


ENTRY = Lie(
    code="M54",
    lie="A sink is a detail.",
    told={
        "twice": {"weights": with_sink(lambda sink: sink + log(2))},
        "twice where a split is idle": {"weights": twice_where_half_is_hidden},
        "missing": {"weights": with_sink(lambda sink: None)},
        "that of head 0": {"weights": with_sink(lambda sink: sink[:1].expand_as(sink))},
        "divided away": {"weights": renormalised},
    },
    caught_by=("sink_takes_its_share",),
    blind_when="there is no sink",
    seen_in=("ROCm/rocm-libraries#12229",),
)
