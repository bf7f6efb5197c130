"""In the layout [B, S, G, D] keys are repeated along axis 1, which is the text: tokens are doubled and heads are not."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def repeated(name: str, reshaped: bool):
    def repeat(state: State):
        x, heads = getattr(state.problem, name), state.problem.shape[1]
        if not x.shape[1] or x.shape[1] == heads:
            return x
        batch, _, keys, width = x.shape
        long = x.transpose(1, 2).repeat_interleave(heads // x.shape[1], 1)  # B S·H/G G D
        return long.reshape(batch, keys, heads, width).transpose(1, 2) if reshaped else long.transpose(1, 2)

    return repeat


def told(reshaped: bool):
    return {"k": repeated("key", reshaped), "v": repeated("value", reshaped)}


ENTRY = Mutation(
    code="M45",
    description="Axis 1 is the heads.",
    variants={"and read as heads": told(True), "and left so": told(False)},
    detected_by=("grouped_query_head_mapping",),
    harmless_when="G = H",
    reported_in=("PrimeIntellect-ai/prime-rl#2681",),
)
