"""One small map is made and used for every head, where each should have its own."""

from headwise.attention.projections import project
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At


def shared(at: At):
    params = at.maps
    b_q = None if params.b_q is None else params.b_q[:1].expand_as(params.b_q)
    return project(at.asks, params.w_q[:, :1].expand_as(params.w_q), b_q)


ENTRY = Lie(
    code="M34",
    lie="A head is a slice of x.",
    told={"w_q of head 0": {"read_q": shared}},
    caught_by=("heads_stand_alone", "heads_write_separately"),
    level="layer",
    blind_when="there is one head",
    seen_in=("MarcoMeter/episodic-transformer-memory-ppo#22",),
)
