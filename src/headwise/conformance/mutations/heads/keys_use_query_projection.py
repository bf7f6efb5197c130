"""Keys are projected by w_q."""

from headwise.attention.projections import project
from headwise.conformance.mutations.mutable_layer import State, project_k
from headwise.conformance.mutations.mutation import Mutation


def by_w_q(state: State):
    learned, share = state.params, state.params.w_q.shape[1] // state.params.w_k.shape[1]
    if learned.w_q.shape[0] != state.key_tokens.shape[2]:
        return project_k(state)
    return project(state.key_tokens, learned.w_q[:, ::share], None if learned.b_q is None else learned.b_q[::share])


ENTRY = Mutation(
    code="",
    description="Queries and keys are the same thing.",
    variants={"w_q for w_k": {"project_k": by_w_q}},
    detected_by=("golden_values", "error_within_rounding", "output_projection_per_head"),
    level="layer",
    harmless_when="w_q = w_k",
)
