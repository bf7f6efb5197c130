"""`torch.nn.functional.scaled_dot_product_attention`, by the backend that torch chooses, and by each that this machine has."""

from functools import lru_cache

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject, SourceCall
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported

BACKENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def compute(problem: Problem, mode: CallMode) -> Tensor:
    if problem.causal and (problem.mask is not None or problem.bias is not None):
        raise NotSupported("is_causal and attn_mask exclude each other.")
    chosen = [BACKENDS[mode.path]] if mode.path else list(BACKENDS.values())
    try:
        with sdpa_kernel(chosen):
            return scaled_dot_product_attention(problem.query, problem.key, problem.value, **keywords(problem, mode))
    except RuntimeError as error:
        if mode.path and "No available kernel" in str(error):
            raise NotSupported(f"the {mode.path} backend does not take this.") from None
        raise


def keywords(problem: Problem, mode: CallMode) -> dict:
    """A mask and a bias share `attn_mask`; with `is_causal` torch takes no mask beside it."""
    said: dict = {} if problem.scale is None else {"scale": problem.scale}
    plane = problem.mask if problem.bias is None else problem.bias
    if problem.mask is not None and problem.bias is not None:
        plane = torch.where(problem.mask, problem.bias, -torch.inf)
    if plane is not None:
        said["attn_mask"] = plane[None] if plane.dim() == 1 else plane  # [.., T, S] is asked for
    if problem.causal:
        said["is_causal"] = True
    if problem.dropout and mode.training:
        said["dropout_p"] = problem.dropout
    if problem.query.shape[1] != problem.key.shape[1]:
        said["enable_gqa"] = True
    return said


def spelled(problem: Problem, mode: CallMode) -> SourceCall:
    words = keywords(problem, mode)
    planes = {name: x for name, x in words.items() if isinstance(x, Tensor)}
    told = [f"{name}={name if name in planes else repr(value)}" for name, value in words.items()]
    call = f"scaled_dot_product_attention({', '.join(['query', 'key', 'value', *told])})"
    tensors = {name: getattr(problem, name) for name in ("query", "key", "value")} | planes
    return SourceCall(("from torch.nn.functional import scaled_dot_product_attention",), tensors, call)


@lru_cache
def backends() -> tuple[str, ...]:
    """Those that answer on this machine."""
    x = torch.ones(1, 1, 2, 8)
    found = []
    for name, backend in BACKENDS.items():
        try:
            with sdpa_kernel(backend):
                scaled_dot_product_attention(x, x, x)
        except RuntimeError:
            continue
        found.append(name)
    return tuple(found)


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"causal", "mask", "bias", "scale", "dropout", *ABILITIES}) - {"weights", "lse", "offset_by_row"}
    conventions = Conventions(corner="top-left", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("torch_sdpa", compute, supports, conventions, paths=backends(), as_source=spelled),)


ENTRY = Peer(
    statement="scaled_dot_product_attention of PyTorch, every backend that this machine has.",
    build=build,
    documented=("corner", "mask_polarity"),
    handles=("torch._C._nn:scaled_dot_product_attention",),
)
