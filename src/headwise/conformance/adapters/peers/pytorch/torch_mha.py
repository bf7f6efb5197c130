"""`torch.nn.MultiheadAttention`: with and without weights, in training and evaluation, with and without its fast path."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.adapters.module_subject import BIASES, FixedOptions, Inputs, ModuleCall, ModuleLayer
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.adapters.sizing.pad_to_size import Sizes
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.capabilities import ABILITIES, DTYPES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.errors import ArgumentError, NotSupported

SUPPORTS = frozenset({"causal", "mask", "bias", "dropout", *ABILITIES}) - {"groups", "value_width", "lse", "offset_by_row", "empty"}
PATHS = ("slow",)


@dataclass(frozen=True, eq=False)
class TorchMha:
    """The caller's module; or, where there is none, one of the size that a problem needs."""

    module: nn.MultiheadAttention | None = None

    @property
    def separate_inputs(self) -> bool:
        """Query, key and value are inputs of their own."""
        return True

    @property
    def any_size(self) -> bool:
        """Whether a module is made for each problem."""
        return self.module is None

    @property
    def fixed(self) -> FixedOptions:
        """It has no options of its own, and may lack biases."""
        without = self.module is not None and self.module.in_proj_bias is None
        return FixedOptions(biases=frozenset() if without else frozenset(BIASES))

    def sizes(self, needed: Sizes) -> Sizes:
        """The module's own sizes; of one made for a problem, heads of width M / H, which is at least what is needed."""
        if self.module is not None:
            width = self.module.head_dim
            return Sizes(self.module.embed_dim, self.module.kdim or self.module.embed_dim, self.module.num_heads, self.module.num_heads, width, width)
        heads = needed.num_heads
        width = max(needed.head_dim, needed.value_dim, -(-needed.d_model // heads))
        return Sizes(heads * width, max(needed.d_context, heads * width), heads, heads, width, width)

    def uncalled_copy(self) -> "TorchMha":
        """An adapter of a copy of the module."""
        return self if self.module is None else TorchMha(deepcopy(self.module))

    def run(self, params: LayerParams, inputs: Inputs, problem: AnyProblem, mode: CallMode) -> Answer:
        """Call the module with these parameters. Self-attention passes the same tensor three times, as the fast path requires."""
        module, parameters = self._module(params)
        dropout = module.dropout if self.module is not None else problem.dropout
        module.train(mode.training)
        module.dropout = problem.dropout if mode.training else dropout
        x, key, value = inputs if module.batch_first else tuple(part.transpose(0, 1) for part in inputs)
        if inputs[0] is inputs[1] and inputs[1] is inputs[2]:
            key = value = x
        with without_fast_path(mode.path == "slow"):
            output, weights = torch.func.functional_call(
                module, parameters, (x, key, value), {**keywords(problem), "need_weights": mode.weights, "average_attn_weights": False}
            )
        module.dropout = dropout
        return Answer(output if module.batch_first else output.transpose(0, 1), weights)

    def _module(self, params: LayerParams) -> tuple[nn.MultiheadAttention, dict[str, Tensor]]:
        d_model, heads, _ = params.w_q.shape
        d_context, biased = params.w_k.shape[0], any(getattr(params, name) is not None for name in BIASES)
        module, like = self.module, {"dtype": params.w_q.dtype, "device": params.w_q.device}
        if module is None:
            with torch.random.fork_rng(devices=[]):  # its initial parameters are drawn, and not used
                module = nn.MultiheadAttention(d_model, heads, bias=biased, kdim=d_context, vdim=d_context, batch_first=True, **like)
        q, k, v = (w.flatten(-2).T for w in (params.w_q, params.w_k, params.w_v))
        packed = getattr(module, "_qkv_same_embed_dim")  # noqa: B009 - how torch says that q, k and v are packed
        found = {"in_proj_weight": torch.cat([q, k, v])} if packed else {"q_proj_weight": q, "k_proj_weight": k, "v_proj_weight": v}
        found["out_proj.weight"] = params.w_o.flatten(0, 1).T
        if module.in_proj_bias is not None:
            pairs = ((params.b_q, params.w_q), (params.b_k, params.w_k), (params.b_v, params.w_v))
            found["in_proj_bias"] = torch.cat([(w.new_zeros(w.shape[1:]) if b is None else b).flatten() for b, w in pairs])
            found["out_proj.bias"] = found["in_proj_bias"].new_zeros(d_model) if params.b_o is None else params.b_o
        elif biased:
            raise NotSupported("The module was made without biases.")
        return module, found


def keywords(problem: AnyProblem) -> dict[str, Any]:
    """The keyword arguments of a problem. True in torch's masks hides; one row per sample is padding, any other mask is `attn_mask`, joined with the bias.

    `is_causal` is a hint. Alone it comes with the causal mask, as the documentation requires; where the problem has a mask of its own, that mask accompanies
    the hint, as users write it.
    """
    batch, heads, queries, keys = problem.shape
    like = next(iter(problem.float_tensors().values()))
    found: dict[str, Any] = {}
    mask, bias = problem.mask, problem.bias
    if mask is not None and mask.dim() == 4 and mask.shape[1] == mask.shape[2] == 1:
        found["key_padding_mask"], mask = ~mask[:, 0, 0].expand(batch, keys), None
    if problem.causal and bias is None and queries == keys:
        found["is_causal"] = True
    if problem.causal and (mask is None or "is_causal" not in found):
        causal_mask = torch.ones(queries, keys, dtype=torch.bool, device=like.device).tril(keys - queries)
        mask = causal_mask if mask is None else mask & causal_mask
    if bias is not None:
        plane = torch.broadcast_to(bias, (batch, heads, queries, keys)).to(like.dtype)
        plane = plane if mask is None else plane.masked_fill(~mask, -torch.inf)
        found["attn_mask"] = plane.flatten(0, 1)
        if "key_padding_mask" in found:
            found["key_padding_mask"] = torch.zeros_like(found["key_padding_mask"], dtype=plane.dtype).masked_fill(found["key_padding_mask"], -torch.inf)
    elif mask is not None:
        shared = mask.dim() == 2 or (mask.shape[:-2].numel() == 1)
        found["attn_mask"] = ~mask.reshape(mask.shape[-2:]).expand(queries, keys) if shared else ~mask.broadcast_to(batch, heads, queries, keys).flatten(0, 1)
    return found


@contextmanager
def without_fast_path(wanted: bool) -> Iterator[None]:
    """Disable the native fast path inside, where wanted."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(before and not wanted)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def build(subject: object = None, **arguments: Any) -> tuple[ModuleCall, ModuleLayer]:
    """A module of the size of each problem; with arguments, or an instance, that very module."""
    module: nn.MultiheadAttention | None = subject if isinstance(subject, nn.MultiheadAttention) else None
    if module is None and arguments:
        try:
            module = nn.MultiheadAttention(**arguments)
        except (TypeError, AssertionError) as error:
            raise ArgumentError(f"arguments must be those of nn.MultiheadAttention, got {arguments} ({error}). Give embed_dim and num_heads.") from None
    if module is not None and (module.bias_k is not None or module.add_zero_attn or module.kdim != module.vdim):
        raise ArgumentError(
            "nn.MultiheadAttention is checked with keys and values of one width and without added keys, got "
            f"add_bias_kv={module.bias_k is not None}, add_zero_attn={module.add_zero_attn}, kdim={module.kdim}, vdim={module.vdim}. Leave these out."
        )
    body = TorchMha(None if module is None else deepcopy(module).eval())
    conventions = Conventions(mask_polarity="hide", weights_after_dropout=True)
    call = ModuleCall("torch_mha", body, SUPPORTS, conventions, DTYPES, paths=PATHS)
    return call, ModuleLayer("torch_mha", body, SUPPORTS | {"biases", "context"}, conventions, DTYPES, paths=PATHS)


ENTRY = Peer(
    statement="nn.MultiheadAttention of PyTorch, with and without weights, with and without its fast path.",
    build=build,
    documented=("mask_polarity", "weights_after_dropout"),
    handles=("torch.nn.modules.activation:MultiheadAttention",),
    takes_subject=True,
)
