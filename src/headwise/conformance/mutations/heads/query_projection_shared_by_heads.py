"""One small map is made and used for every head, where each should have its own."""

from headwise.attention.projections import project
from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation


def shared(state: State):
    learned = state.params
    b_q = None if learned.b_q is None else learned.b_q[:1].expand_as(learned.b_q)
    return project(state.query_tokens, learned.w_q[:, :1].expand_as(learned.w_q), b_q)


ENTRY = Mutation(
    code="M34",
    description="A head is a slice of x.",
    variants={"w_q of head 0": {"project_q": shared}},
    detected_by=("heads_do_not_interact", "output_projection_per_head"),
    level="layer",
    harmless_when="there is one head",
    reported_in=("MarcoMeter/episodic-transformer-memory-ppo#22",),
)
