"""FlexAttention, uncompiled: masks as a block mask, bias, cap and scale as a score function."""

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.oracles.attention_oracle import visibility
from headwise.conformance.problems.problem import Problem


def compute(problem: Problem, mode: CallMode) -> tuple[Tensor, None] | Tensor:
    """What is visible goes into a mask function, a cap and a bias into a score function, as the documentation's examples do."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batch, heads, queries, keys = problem.shape
    visible = torch.from_numpy(visibility(problem, CONVENTIONS)).to(problem.query.device)
    bias = None if problem.bias is None else problem.bias.broadcast_to(problem.shape)

    def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        capped = value if problem.softcap is None else problem.softcap * torch.tanh(value / problem.softcap)
        return capped if bias is None else capped + bias[b, h, i, j]

    hidden = not bool(visible.all())
    mask = create_block_mask(lambda b, h, i, j: visible[b, h, i, j], batch, heads, queries, keys, device=str(problem.query.device)) if hidden else None
    changed = score if problem.softcap is not None or bias is not None else None
    options = {"scale": problem.scale, "enable_gqa": heads != problem.key.shape[1], "block_mask": mask}
    return flex_attention(problem.query, problem.key, problem.value, score_mod=changed, **options)


CONVENTIONS = Conventions(hidden_nonfinite="leaks", weights="never")


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"causal", "query_offset", "window", "mask", "bias", "scale", "softcap", *ABILITIES}) - {"weights", "lse", "empty"}
    return (CallSubject("flex_attention", compute, supports, CONVENTIONS, (torch.float32, torch.float64, torch.bfloat16, torch.float16)),)


ENTRY = Peer(
    statement="torch.nn.attention.flex_attention, eager, with create_block_mask.",
    build=build,
    documented=("dead_row",),
    handles=("torch.nn.attention.flex_attention:flex_attention",),
)
