"""The last head gets the first head's mask."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def reversed_order(at: At):
    honest = call(at)
    return honest if honest.mask is None else replace(honest, mask=honest.mask.flip(1))


ENTRY = Lie(
    code="",
    lie="Heads may be counted from either end.",
    told={"flipped": {"call": reversed_order}},
    caught_by=("masks_combine", "hidden_keys_do_not_matter", "a_head_alone_is_single_head"),
    blind_when="the mask is the same for all heads",
)
