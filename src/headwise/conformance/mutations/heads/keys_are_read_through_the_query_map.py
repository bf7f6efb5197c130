"""Keys are projected by w_q."""

from headwise.attention.projections import project
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, read_k


def by_w_q(at: At):
    params, share = at.maps, at.maps.w_q.shape[1] // at.maps.w_k.shape[1]
    if params.w_q.shape[0] != at.answers.shape[2]:
        return read_k(at)
    return project(at.answers, params.w_q[:, ::share], None if params.b_q is None else params.b_q[::share])


ENTRY = Lie(
    code="",
    lie="Queries and keys are the same thing.",
    told={"w_q for w_k": {"read_k": by_w_q}},
    caught_by=("golden_numbers", "error_stays_within_rounding", "heads_write_separately"),
    level="layer",
    blind_when="w_q = w_k",
)
