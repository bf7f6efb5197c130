"""A map that is stored [out, in] is used as [in, out]: unseen as long as it is square."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation


def transposed(state: State):
    learned = state.problem.params
    width, (heads, each) = learned.w_q.shape[0], learned.w_q.shape[1:]
    if width != heads * each:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({width} and {heads * each})")
    w_o = learned.w_o
    if heads * w_o.shape[1] == width:
        w_o = w_o.flatten(0, 1).T.reshape(w_o.shape)
    return replace(learned, w_q=learned.w_q.flatten(1).T.reshape(learned.w_q.shape), w_o=w_o)


ENTRY = Mutation(
    code="M36",
    description="A square map has no direction.",
    variants={"x · Wᵀ": {"params": transposed}},
    detected_by=("golden_values", "output_shape"),
    level="layer",
    harmless_when="the map is symmetric",
    reported_in=("rasbt/LLMs-from-scratch#857",),
)
