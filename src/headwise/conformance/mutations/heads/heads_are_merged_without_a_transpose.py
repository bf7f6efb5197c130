"""What the heads say is read side by side as it lies in memory: tokens of one head stand for heads of one token."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, z


def as_it_lies(at: At):
    honest = z(at)
    batch, heads, tokens, wide = honest.shape
    return honest.reshape(batch, tokens, heads, wide).transpose(1, 2)


def heads_before_batch(at: At):
    honest = z(at)
    batch, heads, tokens, wide = honest.shape
    return honest.reshape(heads, batch, tokens, wide).transpose(0, 1)


ENTRY = Lie(
    code="M32",
    lie="A reshape is as good as a transpose.",
    told={"reshape": {"z": as_it_lies}, "view(H, B, T, E)": {"z": heads_before_batch}},
    caught_by=("heads_write_separately",),
    level="layer",
    blind_when="there is one head or one token",
    seen_in=("jsbaan/transformer-from-scratch#6", "gazelle93/Transformer-Various-Positional-Encoding#1"),
)
