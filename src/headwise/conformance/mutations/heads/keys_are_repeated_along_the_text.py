"""In the layout [B, S, G, D] keys are repeated along axis 1, which is the text: tokens are doubled and heads are not."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def repeated(name: str, reshaped: bool):
    def repeat(at: At):
        x, heads = getattr(at.problem, name), at.problem.shape[1]
        if not x.shape[1] or x.shape[1] == heads:
            return x
        batch, _, keys, width = x.shape
        long = x.transpose(1, 2).repeat_interleave(heads // x.shape[1], 1)  # B S·H/G G D
        return long.reshape(batch, keys, heads, width).transpose(1, 2) if reshaped else long.transpose(1, 2)

    return repeat


def told(reshaped: bool):
    return {"k": repeated("key", reshaped), "v": repeated("value", reshaped)}


ENTRY = Lie(
    code="M45",
    lie="Axis 1 is the heads.",
    told={"and read as heads": told(True), "and left so": told(False)},
    caught_by=("neighbours_share_a_key_head",),
    blind_when="G = H",
    seen_in=("PrimeIntellect-ai/prime-rl#2681",),
)
