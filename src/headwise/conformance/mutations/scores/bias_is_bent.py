"""The bias is added transposed, twice, or before the scale."""

from dataclasses import replace

from headwise.attention.dense import cap_and_bias, dot_product
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def changed(change):
    def bent(at: At):
        honest = call(at)
        return honest if honest.bias is None else replace(honest, bias=change(honest.bias))

    return bent


def before_the_scale(at: At):
    """(q·k + bias) times the scale."""
    if at.call.bias is None:
        return cap_and_bias(at.raw, at.call, at.seen)
    raw = (dot_product(at.q, at.k, at.seen) + at.call.bias.masked_fill(~at.seen, 0)) * at.call.scale
    return cap_and_bias(raw, replace(at.call, bias=None), at.seen)


ENTRY = Lie(
    code="M52",
    lie="A bias is a bias, wherever it is added.",
    told={
        "transposed": {"call": changed(lambda bias: bias.mT if bias.shape[2] == bias.shape[3] else bias)},
        "doubled": {"call": changed(lambda bias: 2 * bias)},
        "before the scale": {"scores": before_the_scale},
    },
    caught_by=("modifiers_come_in_order",),
    blind_when="there is no bias; transposed also where it is symmetric",
)
