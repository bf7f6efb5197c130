"""The bound of a kernel is inclusive and that of the option is not: w + 1 keys, or w - 1, or w + 1 in prefill only."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def other(step: int, in_prefill_only: bool = False):
    def widen(at: At):
        honest = call(at)
        if not isinstance(honest.window, int) or (in_prefill_only and at.problem.shape[2] == 1):
            return honest
        return replace(honest, window=honest.window + step)

    return widen


ENTRY = Lie(
    code="M23",
    lie="A window of w reaches w keys back.",
    told={"one key more": {"call": other(1)}, "one key less": {"call": other(-1)}, "one key more in prefill": {"call": other(1, in_prefill_only=True)}},
    caught_by=("window_counts",),
    blind_when="the text is shorter than the window",
    seen_in=("huggingface/transformers#39408", "huggingface/transformers#26792", "ml-explore/mlx-lm#390"),
)
