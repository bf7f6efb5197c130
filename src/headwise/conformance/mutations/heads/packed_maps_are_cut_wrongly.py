"""One packed map holds q, k and v: it is cut in three equal parts though k and v are narrower, or read in blocks though it is stored group by group."""

from dataclasses import replace

import torch

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At

NAMES = ("q", "k", "v")


def in_thirds(parts: list[Tensor]) -> list[Tensor]:
    """Each of its own width, but from a third and two thirds of the way on."""
    packed = torch.cat([part.flatten(-2) for part in parts], -1)
    third, starts = packed.shape[-1] // 3, [part.shape[-2] * part.shape[-1] for part in parts]
    cuts = [0, third, min(2 * third, packed.shape[-1] - starts[2])]
    return [packed[..., at : at + wide].reshape(part.shape) for at, wide, part in zip(cuts, starts, parts, strict=True)]


def by_group(parts: list[Tensor]) -> list[Tensor]:
    """Packed as q q k v, q q k v, and read as q q q q k k v v."""
    groups = parts[1].shape[-2]
    packed = torch.cat([part.unflatten(-2, (groups, -1)).flatten(-2) for part in parts], -1).flatten(-2)
    widths = [part.shape[-2] * part.shape[-1] for part in parts]
    return [cut.reshape(part.shape) for cut, part in zip(packed.split(widths, -1), parts, strict=True)]


def packed(cut):
    def maps(at: At) -> LayerParams:
        params = at.problem.params
        if params.w_q.shape[0] != params.w_k.shape[0]:
            return params
        w = [getattr(params, f"w_{name}") for name in NAMES]
        b = [getattr(params, f"b_{name}") if getattr(params, f"b_{name}") is not None else w[n].new_zeros(w[n].shape[1:]) for n, name in enumerate(NAMES)]
        changes = {f"w_{name}": part for name, part in zip(NAMES, cut(w), strict=True)}
        return replace(params, **changes, **{f"b_{name}": part for name, part in zip(NAMES, cut(b), strict=True)})

    return maps


ENTRY = Lie(
    code="M35",
    lie="Three things in one map have a third each, one after the other.",
    told={"equal thirds": {"maps": packed(in_thirds)}, "blocks for groups": {"maps": packed(by_group)}},
    caught_by=("neighbours_share_a_key_head", "golden_numbers"),
    level="layer",
    blind_when="there is one head",
    seen_in=("vllm-project/vllm#13686", "tenstorrent/tt-metal#6243"),
)
