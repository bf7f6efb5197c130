"""Where the field disagrees: what an attention means by its words. Declared or probed, and never a fault."""

from dataclasses import dataclass
from typing import Literal

Corner = Literal["bottom-right", "top-left"]
DeadRow = Literal["zero", "nan", "mean"]


@dataclass(frozen=True)
class Conventions:
    """How one attention reads what it is told, and what it gives back.

    `corner`, `dead_row`, `hidden_nonfinite` and `key_heads` change what is right. The others say how to call the subject, and its adapter
    does so: a `Problem` is always stated in the words of `hw.attend`, where True in a mask means "may be seen" and a window
    of w has w keys, the query's own among them.

    Attributes:
        corner: with no `query_offset` and T ≠ S, whether the last query stands at the last key, or the first at the first.
        dead_row: what a row gives that sees no key: exactly 0, NaN, or the mean of all values.
        hidden_nonfinite: whether NaN or inf in a hidden key or value stays out ("absent") or reaches the output ("leaks").
        key_heads: whether neighbouring query heads share a key head (0 0 1 1, grouped attention), or take turns (0 1 0 1), as some
            families of linear attention have it.
        layout: the order of the axes of query, key and value; "packed": [tokens of all texts, H, D] and where each text begins.
        mask_polarity: what True means in the subject's own mask.
        weights: how returned weights are given, if at all.
        weights_after_dropout: returned weights are those that dropout left.
        window_counts_own: a window of w reaches w - 1 keys back; otherwise w keys back and its own.
        qkv_packing: how one packed map holds three: "q k v" in blocks, or head by head; None where it is not packed.
        rope_pairing: features that turn together; None where the subject has no rotary positions.
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
