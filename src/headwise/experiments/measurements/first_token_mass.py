"""How much weight rests on the first token, and how much of what heads write comes from it.

weight_h = mean over queries behind the first of w_i0
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
    """By layer and head, of one text; NaN where a layer lacks the head.

    Attributes:
        written: NaN where something acts on what heads say before W_O reads it.
        equal: what `weight` would be if each query gave the same to all keys that it sees.
    """

    weight: Float[Tensor, "L H"]
    written: Float[Tensor, "L H"]
    equal: Float[Tensor, "L H"]


@torch.no_grad()
def first_token_mass(passage: "EvalText", given: Mapping[str, Any] | None = None) -> FirstTokenMass:
    """What rests on the first token; one pass.

    Args:
        given: another input of the same shape, such as one with another first token.
    """
    session = passage.forward.session if given is None else replace(passage.forward.session, inputs=given)
    found: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def listen(heard: "AttentionRecord") -> None:
        output = session.layout.sites[heard.index].output
        exact = output is not None and output.exact
        found[heard.index] = _one_layer(heard, w_o_by_head(session.module(output.module), heard.request.query.shape[1]) if exact else None)

    session.rerun(listen, [place.index for place in passage.places])
    rows = [found[place.index] for place in passage.places]
    return FirstTokenMass(*(_padded([row[i] for row in rows]) for i in range(3)))


def _one_layer(heard: "AttentionRecord", blocks: Float[Tensor, "H E M"] | None) -> tuple[Tensor, Tensor, Tensor]:
    asked = heard.request
    queries, keys = slice(1, asked.query.shape[2]), slice(0, asked.key.shape[2])
    every = weights(asked.query, asked.key, heard.attended.lse, asked.call, queries, keys)[0].double()
    seen = visible_keys(asked.call, asked.query.shape[2], asked.key.shape[2]).tile(queries, keys)[0].expand(every.shape)
    equal = (seen[..., 0] / seen.sum(-1).clamp(min=1)).double().mean(-1)
    return every[..., 0].mean(-1), _from_first(every, asked.value[0], blocks), equal


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
