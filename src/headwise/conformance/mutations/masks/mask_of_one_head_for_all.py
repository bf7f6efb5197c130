"""The mask of head 0 is used for all heads."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def first(at: At):
    honest = call(at)
    return honest if honest.mask is None else replace(honest, mask=honest.mask[:, :1])


ENTRY = Lie(
    code="M16",
    lie="Heads have one mask between them.",
    told={"of head 0": {"call": first}},
    caught_by=("masks_combine", "hidden_keys_do_not_matter", "a_head_alone_is_single_head"),
    blind_when="the mask is the same for all heads",
)
