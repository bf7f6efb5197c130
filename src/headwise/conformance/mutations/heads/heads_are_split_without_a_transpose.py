"""The projected text is cut into heads as if heads came first in memory: a head gets some tokens of all features."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, read_k, read_q, read_v


def by_tokens(read):
    def split(at: At):
        honest = read(at)  # B H T D
        return honest.transpose(1, 2).reshape(honest.shape)

    return split


def by_features(read):
    def split(at: At):
        honest = read(at)
        batch, heads, tokens, width = honest.shape
        return honest.transpose(1, 2).reshape(batch, tokens, width, heads).permute(0, 3, 1, 2)

    return split


def told(split):
    return {"read_q": split(read_q), "read_k": split(read_k), "read_v": split(read_v)}


ENTRY = Lie(
    code="M31",
    lie="A view is as good as a transpose.",
    told={"view(B, H, T, D)": told(by_tokens), "view(B, T, D, H)": told(by_features)},
    caught_by=("heads_write_separately", "heads_stand_alone"),
    level="layer",
    blind_when="there is one head",
    seen_in=("reczoo/FuxiCTR#30",),
)
