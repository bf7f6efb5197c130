"""Each head's attention weight on the first token, and the share of its write that comes from it.

weight_h = mean of w_i0 over the queries after the first
write_h  = mean of w_i0 · |v_0 · W_O[h]| / Σ_j w_ij · |v_j · W_O[h]|        Kobayashi et al. 2020, equation 4
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import einsum

from headwise.attention.mask import visible_keys
from headwise.attention.weights import weights
from headwise.axes import Float, Tensor
from headwise.models.layout import w_o_by_head

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.models.capture.recorder import AttentionRecord


@dataclass(frozen=True, eq=False)
class FirstTokenMass:
    """Numbers of one text by layer and head; NaN where a layer lacks the head.

    Attributes:
        weight: the mean weight on the first token.
        written: the share of the write that comes from it; NaN if a module between z and W_O mixes heads.
        equal: `weight` under uniform attention over visible keys.
    """

    weight: Float[Tensor, "L H"]
    written: Float[Tensor, "L H"]
    equal: Float[Tensor, "L H"]


@torch.no_grad()
def first_token_mass(passage: "EvalText", given: Mapping[str, Any] | None = None) -> FirstTokenMass:
    """Measure the weight on the first token and the share of writes from it, in one forward pass.

    Args:
        given: another input of the same shape, such as one with another first token.
    """
    session = passage.forward.session if given is None else replace(passage.forward.session, inputs=given)
    found: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def measure(record: "AttentionRecord") -> None:
        output = session.layout.sites[record.index].output
        exact = output is not None and output.exact
        found[record.index] = _one_layer(record, w_o_by_head(session.module(output.module), record.request.query.shape[1]) if exact else None)

    session.rerun(measure, [place.index for place in passage.places])
    rows = [found[place.index] for place in passage.places]
    return FirstTokenMass(*(_padded([row[i] for row in rows]) for i in range(3)))


def _one_layer(record: "AttentionRecord", blocks: Float[Tensor, "H E M"] | None) -> tuple[Tensor, Tensor, Tensor]:
    request = record.request
    queries, keys = slice(1, request.query.shape[2]), slice(0, request.key.shape[2])
    every = weights(request.query, request.key, record.attended.lse, request.call, queries, keys)[0].double()
    seen = visible_keys(request.call, request.query.shape[2], request.key.shape[2]).tile(queries, keys)[0].expand(every.shape)
    equal = (seen[..., 0] / seen.sum(-1).clamp(min=1)).double().mean(-1)
    return every[..., 0].mean(-1), _from_first(every, request.value[0], blocks), equal


def _from_first(every: Float[Tensor, "H T S"], value: Float[Tensor, "G S E"], blocks: Float[Tensor, "H E M"] | None) -> Float[Tensor, " H"]:
    heads = len(every)
    if blocks is None:
        return torch.full((heads,), torch.nan, dtype=torch.float64)
    carried = einsum("hse,hem->hsm", value.double().repeat_interleave(heads // len(value), 0), blocks.double())
    lengths = every * torch.linalg.vector_norm(carried, dim=-1)[:, None]
    return (lengths[..., 0] / lengths.sum(-1).clamp(min=1e-300)).mean(-1)


def _padded(rows: list[Tensor]) -> Float[Tensor, "L H"]:
    most = max(map(len, rows))
    return torch.stack([torch.cat([row, row.new_full((most - len(row),), torch.nan)]) for row in rows])
