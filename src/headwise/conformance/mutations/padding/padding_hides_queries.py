"""Padding of the keys is laid along the axis of the queries; or along both."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def turned(both: bool):
    def lay(at: At):
        honest = call(at)
        if honest.mask is None or honest.mask.shape[2] > 1 or at.problem.shape[2] != honest.mask.shape[3]:
            return honest
        return replace(honest, mask=honest.mask & honest.mask.mT if both else honest.mask.mT)

    return lay


ENTRY = Lie(
    code="M14",
    lie="A padded token neither is seen nor sees.",
    told={"queries": {"call": turned(False)}, "queries and keys": {"call": turned(True)}},
    caught_by=("masks_combine", "dead_rows_are_as_declared"),
    blind_when="T differs from S, or the mask is written out",
    seen_in=("pytorch/pytorch#63271",),
)
