"""The bound of a kernel is inclusive and that of the option is not: w + 1 keys, or w - 1, or w + 1 in prefill only."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def other(step: int, in_prefill_only: bool = False):
    def widen(state: State):
        original = call(state)
        if not isinstance(original.window, int) or (in_prefill_only and state.problem.shape[2] == 1):
            return original
        return replace(original, window=original.window + step)

    return widen


ENTRY = Mutation(
    code="M23",
    description="A window of w reaches w keys back.",
    variants={"one key more": {"call": other(1)}, "one key less": {"call": other(-1)}, "one key more in prefill": {"call": other(1, in_prefill_only=True)}},
    detected_by=("window_size",),
    harmless_when="the text is shorter than the window",
    reported_in=("huggingface/transformers#39408", "huggingface/transformers#26792", "ml-explore/mlx-lm#390"),
)
