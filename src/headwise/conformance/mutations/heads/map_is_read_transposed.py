"""A map that is stored [out, in] is used as [in, out]: unseen as long as it is square."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At


def transposed(at: At):
    params = at.problem.params
    width, (heads, each) = params.w_q.shape[0], params.w_q.shape[1:]
    if width != heads * each:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({width} and {heads * each})")
    w_o = params.w_o
    if heads * w_o.shape[1] == width:
        w_o = w_o.flatten(0, 1).T.reshape(w_o.shape)
    return replace(params, w_q=params.w_q.flatten(1).T.reshape(params.w_q.shape), w_o=w_o)


ENTRY = Lie(
    code="M36",
    lie="A square map has no direction.",
    told={"x · Wᵀ": {"maps": transposed}},
    caught_by=("golden_numbers", "output_has_the_right_shape"),
    level="layer",
    blind_when="the map is symmetric",
    seen_in=("rasbt/LLMs-from-scratch#857",),
)
