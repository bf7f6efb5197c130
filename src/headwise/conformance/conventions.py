"""Where implementations legitimately differ: what the arguments and results of an attention mean. Declared or probed, never a fault."""

from dataclasses import dataclass
from typing import Literal

Corner = Literal["bottom-right", "top-left"]
DeadRow = Literal["zero", "nan", "mean"]


@dataclass(frozen=True)
class Conventions:
    """What one attention means by its arguments and results.

    `corner`, `dead_row`, `hidden_nonfinite` and `key_heads` change the expected result. The others say how to call the subject, which is the task of its
    adapter: a `Problem` is always stated in the conventions of `hw.attend`, where True in a mask means that the key is visible and a window of w holds w keys,
    the query's own position included.

    Attributes:
        corner: alignment of the causal mask when there is no `query_offset` and T ≠ S: the last query at the last key, or the first query at the first key.
        dead_row: the result of a fully masked row: exactly 0, NaN, or the mean of all values.
        hidden_nonfinite: whether NaN or inf in a hidden key or value is ignored ("absent") or reaches the output ("leaks").
        key_heads: whether adjacent query heads share a key/value head (0 0 1 1, as in grouped-query attention) or key/value heads repeat in turn (0 1 0 1), as
            in some families of linear attention.
        layout: the order of the axes of query, key and value; "packed" for [tokens of all sequences, H, D] with cumulative lengths.
        mask_polarity: the meaning of True in the subject's own mask: the key is kept, or hidden.
        weights: whether returned attention weights are per head, averaged over heads, or never returned.
        weights_after_dropout: returned weights are those after dropout.
        window_counts_own: a window of w reaches w - 1 keys back; otherwise w keys back in addition to the query's own.
        qkv_packing: how one packed projection holds q, k and v: in three blocks, head by head, or group by group; None where it is not packed.
        rope_pairing: which features rotary positions rotate together; None where the subject has no rotary positions.
    """

    corner: Corner = "bottom-right"
    dead_row: DeadRow = "zero"
    hidden_nonfinite: Literal["absent", "leaks"] = "absent"
    key_heads: Literal["neighbours share", "in turn"] = "neighbours share"
    layout: Literal["B H T D", "B T H D", "packed"] = "B H T D"
    mask_polarity: Literal["keep", "hide"] = "keep"
    weights: Literal["per head", "averaged", "never"] = "per head"
    weights_after_dropout: bool = False
    window_counts_own: bool = True
    qkv_packing: Literal["q k v", "by head", "by group"] | None = None
    rope_pairing: Literal["halves", "neighbours"] | None = None


OURS = Conventions()
"""The conventions of headwise itself."""
