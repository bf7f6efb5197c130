"""One packed map holds q, k and v: it is cut in three equal parts though k and v are narrower, or read in blocks though it is stored group by group."""

from dataclasses import replace

import torch

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation

NAMES = ("q", "k", "v")


def in_thirds(parts: list[Tensor]) -> list[Tensor]:
    """Each of its own width, but from a third and two thirds of the way on."""
    packed = torch.cat([part.flatten(-2) for part in parts], -1)
    third, starts = packed.shape[-1] // 3, [part.shape[-2] * part.shape[-1] for part in parts]
    cuts = [0, third, min(2 * third, packed.shape[-1] - starts[2])]
    return [packed[..., state : state + wide].reshape(part.shape) for state, wide, part in zip(cuts, starts, parts, strict=True)]


def by_group(parts: list[Tensor]) -> list[Tensor]:
    """Packed as q q k v, q q k v, and read as q q q q k k v v."""
    groups = parts[1].shape[-2]
    packed = torch.cat([part.unflatten(-2, (groups, -1)).flatten(-2) for part in parts], -1).flatten(-2)
    widths = [part.shape[-2] * part.shape[-1] for part in parts]
    return [cut.reshape(part.shape) for cut, part in zip(packed.split(widths, -1), parts, strict=True)]


def packed(cut):
    def maps(state: State) -> LayerParams:
        learned = state.problem.params
        if learned.w_q.shape[0] != learned.w_k.shape[0]:
            return learned
        w = [getattr(learned, f"w_{name}") for name in NAMES]
        b = [getattr(learned, f"b_{name}") if getattr(learned, f"b_{name}") is not None else w[n].new_zeros(w[n].shape[1:]) for n, name in enumerate(NAMES)]
        changes = {f"w_{name}": part for name, part in zip(NAMES, cut(w), strict=True)}
        return replace(learned, **changes, **{f"b_{name}": part for name, part in zip(NAMES, cut(b), strict=True)})

    return maps


ENTRY = Mutation(
    code="M35",
    description="Three things in one map have a third each, one after the other.",
    variants={"equal thirds": {"params": packed(in_thirds)}, "blocks for groups": {"params": packed(by_group)}},
    detected_by=("grouped_query_head_mapping", "golden_values"),
    level="layer",
    harmless_when="there is one head",
    reported_in=("vllm-project/vllm#13686", "tenstorrent/tt-metal#6243"),
)
