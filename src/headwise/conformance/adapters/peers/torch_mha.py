"""`torch.nn.MultiheadAttention`: weights on and off, training and evaluation, its fast path on and off."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import DTYPES
from headwise.conformance.adapters.module_subject import Inputs, ModuleCall, ModuleLayer
from headwise.conformance.adapters.pad_to_size import Sizes
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.adapters.subject import ABILITIES, Refused
from headwise.conformance.problems.answer import Answer, How
from headwise.conformance.problems.conventions import Conventions
from headwise.errors import ArgumentError

HONOURS = frozenset({"causal", "mask", "bias", "dropout", *ABILITIES}) - {"groups", "value_width", "lse", "offset_by_row", "empty"}
PATHS = ("slow",)


@dataclass(frozen=True, eq=False)
class TorchMha:
    """The module of the caller; or, where there is none, one of the size that a problem needs."""

    module: nn.MultiheadAttention | None = None
    apart: bool = True

    @property
    def grows(self) -> bool:
        """Made to measure."""
        return self.module is None

    def sizes(self, needed: Sizes) -> Sizes:
        """Its own; to measure all heads are as wide as M / H, which is at least what is needed."""
        if self.module is not None:
            width = self.module.head_dim
            return Sizes(self.module.embed_dim, self.module.kdim, self.module.num_heads, self.module.num_heads, width, width)
        width = max(needed.width, needed.wide, -(-needed.model // needed.heads))
        return Sizes(needed.heads * width, max(needed.context, needed.heads * width), needed.heads, needed.heads, width, width)

    def fresh(self) -> "TorchMha":
        """With a copy of the module."""
        return self if self.module is None else TorchMha(deepcopy(self.module))

    def run(self, params: LayerParams, inputs: Inputs, problem: Any, how: How) -> Answer:
        """Self-attention passes the same tensor three times, as the fast path asks for."""
        module, parameters = self._made(params)
        dropout = module.dropout if self.module is not None else problem.dropout
        module.train(how.training)
        module.dropout = problem.dropout if how.training else dropout
        x, key, value = inputs if module.batch_first else tuple(part.transpose(0, 1) for part in inputs)
        if inputs[0] is inputs[1] and inputs[1] is inputs[2]:
            key = value = x
        with slow(how.path == "slow"):
            output, weights = torch.func.functional_call(
                module, parameters, (x, key, value), {**keywords(problem), "need_weights": how.weights, "average_attn_weights": False}
            )
        module.dropout = dropout
        return Answer(output if module.batch_first else output.transpose(0, 1), weights)

    def _made(self, params: LayerParams) -> tuple[nn.MultiheadAttention, dict[str, Tensor]]:
        model, heads, _ = params.w_q.shape
        context, biased = params.w_k.shape[0], any(getattr(params, name) is not None for name in ("b_q", "b_k", "b_v", "b_o"))
        module, like = self.module, {"dtype": params.w_q.dtype, "device": params.w_q.device}
        if module is None:
            with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and not used
                module = nn.MultiheadAttention(model, heads, bias=biased, kdim=context, vdim=context, batch_first=True, **like)
        q, k, v = (w.flatten(-2).T for w in (params.w_q, params.w_k, params.w_v))
        own = getattr(module, "_qkv_same_embed_dim")  # noqa: B009 - torch's own word for how it packs the three
        maps = {"in_proj_weight": torch.cat([q, k, v])} if own else {"q_proj_weight": q, "k_proj_weight": k, "v_proj_weight": v}
        maps["out_proj.weight"] = params.w_o.flatten(0, 1).T
        if module.in_proj_bias is not None:
            pairs = ((params.b_q, params.w_q), (params.b_k, params.w_k), (params.b_v, params.w_v))
            maps["in_proj_bias"] = torch.cat([(w.new_zeros(w.shape[1:]) if b is None else b).flatten() for b, w in pairs])
            maps["out_proj.bias"] = maps["in_proj_bias"].new_zeros(model) if params.b_o is None else params.b_o
        elif biased:
            raise Refused("the module was made without biases.")
        return module, maps


def keywords(problem: Any) -> dict[str, Any]:
    """True in torch's masks hides. A mask of one row a text is padding, all else is `attn_mask`, which a bias joins.

    `is_causal` is a hint. Alone it comes with the triangle as its mask, as the documentation asks; where the caller has a mask
    of his own, that is what stands beside the hint, as people write it.
    """
    batch, heads, queries, keys = problem.shape
    said: dict[str, Any] = {}
    mask, bias = problem.mask, problem.bias
    if mask is not None and mask.dim() == 4 and mask.shape[1] == mask.shape[2] == 1:
        said["key_padding_mask"], mask = ~mask[:, 0, 0].expand(batch, keys), None
    if problem.causal and bias is None and queries == keys:
        said["is_causal"] = True
    if problem.causal and (mask is None or "is_causal" not in said):
        triangle = torch.ones(queries, keys, dtype=torch.bool, device=next(iter(problem.floats().values())).device).tril(keys - queries)
        mask = triangle if mask is None else mask & triangle
    if bias is not None:
        plane = torch.broadcast_to(bias, (batch, heads, queries, keys)).to(next(iter(problem.floats().values())).dtype)
        plane = plane if mask is None else plane.masked_fill(~mask, -torch.inf)
        said["attn_mask"] = plane.flatten(0, 1)
        if "key_padding_mask" in said:
            said["key_padding_mask"] = torch.zeros_like(said["key_padding_mask"], dtype=plane.dtype).masked_fill(said["key_padding_mask"], -torch.inf)
    elif mask is not None:
        flat = mask.dim() == 2 or (mask.shape[:-2].numel() == 1)
        said["attn_mask"] = ~mask.reshape(mask.shape[-2:]).expand(queries, keys) if flat else ~mask.broadcast_to(batch, heads, queries, keys).flatten(0, 1)
    return said


@contextmanager
def slow(wanted: bool) -> Iterator[None]:
    """Without the native fast path."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(before and not wanted)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def build(subject: Any = None, **arguments: Any) -> tuple[ModuleCall, ModuleLayer]:
    """One made to measure; with arguments, or an instance, that very module."""
    if isinstance(subject, type) or subject is None:
        try:
            module = nn.MultiheadAttention(**arguments) if arguments else None
        except (TypeError, AssertionError) as error:
            raise ArgumentError(f"arguments must be those of nn.MultiheadAttention, got {arguments} ({error}). Give embed_dim and num_heads.") from None
    else:
        module = subject
    if module is not None and (module.bias_k is not None or module.add_zero_attn or module.kdim != module.vdim):
        raise ArgumentError(
            "subject must look at keys and values of one width, and at none that it adds itself, got "
            f"add_bias_kv={module.bias_k is not None}, add_zero_attn={module.add_zero_attn}, kdim={module.kdim}, vdim={module.vdim}. Leave these out."
        )
    body = TorchMha(None if module is None else deepcopy(module).eval())
    conventions = Conventions(mask_polarity="hide", weights_after_dropout=True)
    call = ModuleCall("torch_mha", body, HONOURS, conventions, DTYPES, paths=PATHS)
    layer_words = HONOURS | {"biases", "context"}
    return call, replace(ModuleLayer("torch_mha", body, layer_words, conventions, DTYPES), paths=PATHS)


ENTRY = Peer(
    statement="nn.MultiheadAttention of PyTorch, with weights and without, its fast path on and off.",
    build=build,
    says=("mask_polarity", "weights_after_dropout"),
    stands_for=("torch.nn.modules.activation:MultiheadAttention",),
    takes_subject=True,
)
