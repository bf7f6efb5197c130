"""How many pairs of query and key each layer of a model looks at in a long text, from the rule that its mask states: the model need not read that text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headwise.attention.call import Call
from headwise.attention.mask import LazyMask, visible_keys
from headwise.models.masks.mask_description import MaskDescription

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.models.capture.recorder import AttentionRecord


@dataclass(frozen=True)
class VisiblePairs:
    """By layer; None where the mask is a tensor of this one text, from which no longer one follows.

    Attributes:
        pairs: of one head.
        everything: pairs if all were seen that the model's direction allows: all, or those up to the query itself.
        causal: no query sees what comes after it.
    """

    length: int
    pairs: tuple[int | None, ...]
    everything: int
    causal: bool


def visible_pairs(passage: "EvalText", length: int) -> VisiblePairs:
    """Pairs in a text of so many tokens."""
    calls: dict[int, tuple[Call, int]] = {}
    passage.forward.session.rerun(lambda record: calls.__setitem__(record.index, _call(record)), [place.index for place in passage.places])
    known: dict[int, int | None] = {}
    found, causal = [], True
    for place in passage.places:
        call, queries = calls[place.index]
        key = id(call.mask) if call.mask is not None else int(call.causal)
        if key not in known:
            known[key] = _pairs(call, length)
        found.append(known[key])
        seen = visible_keys(call, queries, queries).tile(slice(0, queries), slice(0, queries))
        causal = causal and not bool(seen.triu(1).any())
    return VisiblePairs(length, tuple(found), length * (length + 1) // 2 if causal else length * length, causal)


def _call(record: "AttentionRecord") -> tuple[Call, int]:
    return record.request.call, record.request.query.shape[2]


def _pairs(call: Call, length: int) -> int | None:
    """Of one head, in a text of this length."""
    mask = call.mask
    if mask is None:
        return length * (length + 1) // 2 if call.causal else length * length
    if not isinstance(mask, MaskDescription) or mask.padding is not None:
        return None
    longer = MaskDescription(
        batch_size=1, q_length=length, kv_length=length, mask_function=mask.mask_function, dtype=mask.dtype, use_vmap=mask.use_vmap, device=mask.device
    )
    seen = longer.intervals()
    if seen.mask is None:
        return int((seen.stop - seen.first)[0, 0].sum())
    return _counted(longer, length)


def _counted(rule: LazyMask, length: int) -> int:
    """Cell by cell, some rows at a time."""
    step = max(1, (1 << 20) // length)
    parts = [rule.tile(slice(start, min(start + step, length)), slice(0, length)) for start in range(0, length, step)]
    return int(torch.stack([part[0, 0].sum() for part in parts]).sum())
