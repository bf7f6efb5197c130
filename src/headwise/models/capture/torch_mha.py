"""torch's own `nn.MultiheadAttention` on our attention function: the same numbers, with every head recorded.

Its fused paths (`nn.TransformerEncoder` goes through one in eval mode) never call the modules inside it. In a clone they are
left out, as torch itself leaves them out where hooks are attached.
"""

from functools import cache, partial

import torch
from torch import nn
from torch.nn import functional as F

from headwise.axes import Float, Tensor


def instrument_mha(clone: nn.Module) -> None:
    """Set every `nn.MultiheadAttention` of a clone to our function, and turn the fused paths around it off.

    In a subclass ours stands where torch's own stood: what the subclass does before and after `super().forward` is done.
    """
    for module in clone.modules():
        if type(module) is nn.MultiheadAttention:
            module.forward = partial(forward, module)
        elif isinstance(module, nn.MultiheadAttention):
            module.__class__ = _instrumented(type(module))
        elif isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
        elif isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0  # what the fused path asks for; the activation itself is another attribute


def forward(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute what the module itself computes: z = softmax(q·k / sqrt(D) + mask) · v by head, then out_proj.

    `key_padding_mask` and a bool `attn_mask` are True where hidden, as torch has it; `bias_k` and `add_zero_attn` add a key.
    """
    from headwise.models.capture.hf_attention import attention_forward

    batched = query.dim() == 3
    query, key, value = (_batch_first(x, batched, module.batch_first) for x in (query, key, value))
    q, k, v = _projected(module, query, key, value)
    extra = 0
    if module.bias_k is not None:
        k, v = (torch.cat([x, bias.expand(x.shape[0], 1, -1)], 1) for x, bias in ((k, module.bias_k), (v, module.bias_v)))
        extra += 1
    q, k, v = (x.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    if module.add_zero_attn:
        k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
        extra += 1
    mask = _merged(module, key_padding_mask, attn_mask, q, extra)
    z, _ = attention_forward(module, q, k, v, mask, scaling=q.shape[-1] ** -0.5, is_causal=False)
    out = module.out_proj(z.flatten(2))
    weights = _weights(q, k, mask) if need_weights else None
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        return out[0], None if weights is None else weights[0]
    return (out if module.batch_first else out.transpose(0, 1)), weights


class _InstrumentedMHA(nn.MultiheadAttention):
    """Torch's own with our forward, to stand between a subclass and torch's own."""

    forward = forward  # pyright: ignore[reportAssignmentType]


@cache
def _instrumented(kind: type[nn.MultiheadAttention]) -> type[nn.MultiheadAttention]:
    """A subclass of the same name whose `super().forward` is ours."""
    return type(kind.__name__, (kind, _InstrumentedMHA), {"__module__": kind.__module__})  # pyright: ignore[reportGeneralTypeIssues]


def _batch_first(x: Tensor, batched: bool, first: bool) -> Float[Tensor, "B T M"]:
    return x[None] if not batched else x if first else x.transpose(0, 1)


def _projected(module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    weights = module.in_proj_weight.chunk(3) if module._qkv_same_embed_dim else (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None, None, None) if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return [F.linear(x, weight, bias) for x, weight, bias in zip((query, key, value), weights, biases, strict=True)]


def _merged(module: nn.MultiheadAttention, padding: Tensor | None, mask: Tensor | None, q: Tensor, extra: int) -> Float[Tensor, "#B #H #T S"] | None:
    """Both masks as one that is added: [B or 1, H or 1, T or 1, S]."""
    if mask is not None:
        mask = mask.unflatten(0, (-1, module.num_heads)) if mask.dim() == 3 else mask[None, None]
    if padding is not None:
        padding = padding.reshape(q.shape[0], 1, 1, -1)
    planes = [F.pad(_added(x, q.dtype), (0, extra)) for x in (mask, padding) if x is not None]
    return sum(planes[1:], planes[0]) if planes else None


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf) if mask.dtype == torch.bool else mask.to(dtype)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Float[Tensor, "B H T S"]:
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    return (scores if mask is None else scores + mask).softmax(-1)
