"""What each head adds to the output, from what W_O reads of it and the head's own block of W_O."""

from collections.abc import Iterator

import torch
from torch import einsum, nn

from headwise.axes import Float, Rows, Tensor
from headwise.models.layout import w_o_bias, w_o_by_head

CELLS = 1 << 24  # numbers of writes made at once


def write_measures(read: Float[Tensor, "B T H E"], module: nn.Module) -> dict[str, Rows]:
    """How much each head writes, [B, H, T] each.

        writes_h = read_h · W_O[h]                   Σ_h writes_h + bias = the module's output
        norm     = |writes_h|
        share    = writes_h · Σ writes / |Σ writes|²   how much of the heads' sum is this head's; shares add up to 1
        cosine   = writes_h · out / (|writes_h| |out|)   with out = Σ writes + bias

    Args:
        module: the Linear or Conv1D that holds W_O.
    """
    found: dict[str, list[Tensor]] = {"norm": [], "share": [], "cosine": []}
    for writes in iter_writes(read, module):
        total = writes.sum(2)
        bias = w_o_bias(module)
        out = total if bias is None else total + bias.to(total)
        norm = torch.linalg.vector_norm(writes, dim=-1)
        found["norm"].append(norm)
        found["share"].append(einsum("bthm,btm->bth", writes, total) / total.square().sum(-1, keepdim=True))
        found["cosine"].append(einsum("bthm,btm->bth", writes, out) / (norm * torch.linalg.vector_norm(out, dim=-1)[..., None]))
    return {name: torch.cat(parts, 1).transpose(1, 2).contiguous().cpu() for name, parts in found.items()}


def iter_writes(read: Float[Tensor, "B T H E"], module: nn.Module) -> Iterator[Float[Tensor, "B t H M"]]:
    """The writes themselves, some tokens at a time."""
    blocks = w_o_by_head(module, read.shape[2])
    wide = torch.float64 if read.dtype == torch.float64 else torch.float32
    blocks = blocks.to(wide)
    step = max(1, CELLS // (read.shape[0] * read.shape[2] * blocks.shape[2]))
    for part in read.split(step, 1):
        yield einsum("bthe,hem->bthm", part.to(wide), blocks)
