"""x-transformers: its `Attend`, the step from q, k and v to the output."""

from typing import Any

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported

FLASH = "flash"


def compute(problem: Problem, mode: CallMode) -> tuple[Tensor, Tensor | None]:
    """True in a mask means that a key may be seen; query heads take key heads in turn; the path "flash" goes through torch's fused function."""
    from x_transformers.attend import Attend

    heads = problem.query.shape[1]
    words: dict[str, Any] = {"causal": problem.causal, "scale": problem.scale, "heads": heads, "dropout": problem.dropout}
    if mode.path == FLASH:
        if problem.softcap is not None or problem.sink is not None:
            raise NotSupported("with flash there is no cap and no sink.")
        words["flash"] = True
    if problem.softcap is not None:
        if problem.bias is not None:
            raise NotSupported("it caps what the bias was added to.")
        words |= {"softclamp_logits": True, "logit_softclamp_value": problem.softcap}
    words |= {} if problem.sink is None else {"head_learned_sink": True}
    module = Attend(**words).train(mode.training)
    parameters = {} if problem.sink is None else {"head_attn_sink": problem.sink}
    planes = {name: plane.broadcast_to(problem.shape) for name, plane in (("mask", problem.mask), ("attn_bias", problem.bias)) if plane is not None}
    output, between = torch.func.functional_call(module, parameters, (problem.query, problem.key, problem.value), planes)
    weights = between.post_softmax_attn
    if weights is not None and problem.sink is not None:
        weights = weights[..., 1:]
    return output, weights if mode.weights else None


def build() -> tuple[CallSubject, ...]:
    known = {"causal", "mask", "bias", "scale", "softcap", "sink", "dropout"}
    supports = frozenset({*known, *ABILITIES}) - {"lse", "offset_by_row", "empty"}
    conventions = Conventions(hidden_nonfinite="leaks", key_heads="in turn")
    return (CallSubject("x_transformers", compute, supports, conventions, (torch.float32, torch.float64, torch.bfloat16, torch.float16), paths=(FLASH,)),)


ENTRY = Peer(statement="Attend of x-transformers, eager and flash.", build=build, needs=("x_transformers",), documented=("mask_polarity", "key_heads"))
