"""Requests of transformers' attention interface, translated into a `Call`.

Visibility comes from the mask alone: never from `sliding_window`, which models fill in by different conventions. A keyword
that could change the numbers is honoured or refused by name, never dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headwise.attention.call import Call, Tiled, tile_of
from headwise.attention.mask import LazyMask, VisibleKeys
from headwise.axes import Bool, Int, Key, Query, Tensor, Value
from headwise.errors import ModelError
from headwise.models.masks.diagonal_bias import DiagonalTensor
from headwise.models.masks.key_intervals import find_extent
from headwise.models.masks.mask_description import MaskDescription, MaskHandle

# Passed by models and read by no attention function, or by flash kernels only, for which the mask means the same.
IGNORED_KWARGS = frozenset(
    (
        "position_ids",
        "position_embeddings",
        "use_cache",
        "cache",
        "past_key_values",
        "cache_position",
        "sliding_window",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "labels",
        "logits_to_keep",
        "num_items_in_batch",
        "input_ids",
        "encoder_hidden_states",
        "image_sizes",
        "grid_thw",
        "deterministic",
        "cu_seq_lens_q",
        "cu_seq_lens_k",
        "max_length_q",
        "max_length_k",
        "layer_idx",
    )
)


@dataclass(frozen=True, eq=False)
class AttentionRequest:
    """One request for attention, as our own code can compute it."""

    query: Query
    key: Key
    value: Value
    call: Call
    padding: Bool[Tensor, "B S"] | None = None  # True where a key is a real token; None where the mask has no padding
    notes: tuple[str, ...] = ()
    query_padding: Bool[Tensor, "B T"] | None = None  # True where a query is a real token; None where none is known to be padding
    weights_dtype: torch.dtype | None = None  # of the weights, where the model made them itself
    description: MaskDescription | None = None  # of the mask, where the model passed on one that transformers described


def parse_request(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | Tensor | None,
    dropout: float,
    is_causal: bool | None,
    unmasked_is_causal: bool,
    model_kwargs: frozenset[str],
    keywords: Mapping[str, Any],
    split_mask: "MaskSplitter",
) -> AttentionRequest:
    """Translate one use of the interface.

    Args:
        module: the calling module; its `is_causal` counts where there is no mask.
        unmasked_is_causal: the model was loaded with an implementation (sdpa) for which no mask means causal in a module that is causal.
        known: further keywords that mean nothing here: what the caller gave to the whole model.
        taken_apart: remembers the last mask tensor, which most layers share.

    Raises:
        ModelError: the interface was used in a way that cannot be honoured.
    """
    _refuse_dropout(module, dropout)
    query, key, value = _tensors(module, query, key, value)
    queries, keys = query.shape[2], key.shape[2]
    call = Call(scale=_scale(module, scaling, query), offset=_offsets(query, keys - queries))
    notes: tuple[str, ...] = ()
    padding = None
    if isinstance(attention_mask, MaskHandle) and not attention_mask.rule.written and not _is_one_row(attention_mask, queries):
        rule = attention_mask.rule
        _check_described(module, attention_mask, query, keys)
        padding = None if rule.padding is None else rule.padding[:, :keys].expand(query.shape[0], -1)
        call = replace(call, mask=rule, offset=_offsets(query, rule.offset))
    elif attention_mask is not None:
        tensor = attention_mask.rule.whole() if isinstance(attention_mask, MaskHandle) else attention_mask
        mask, bias = split_mask(tensor, _plane(module, "attention_mask", tensor, query, keys))
        call = replace(call, mask=mask, bias=bias)
        notes = ("its mask is a tensor that the model built itself",)
    elif unmasked_is_causal and queries > 1 and (is_causal if is_causal is not None else getattr(module, "is_causal", True)):
        call = replace(call, causal=True, offset=_offsets(query, 0))
    for name, given in keywords.items():
        if given is None or given is False or name in IGNORED_KWARGS:
            continue
        if name in HANDLED_KWARGS:
            call = HANDLED_KWARGS[name](module, call, given, query, keys, split_mask)
            notes += (NOTES[name],) if name in NOTES and not isinstance(given, DiagonalTensor) else ()
        elif name not in model_kwargs:
            raise ModelError(
                f"attention keywords must be ones that headwise honours, got {name!r} in {type(module).__name__}. "
                f"Numbers without it could be wrong; it honours {', '.join(sorted(HANDLED_KWARGS))}."
            )
    return AttentionRequest(query, key, value, call, padding, notes, description=attention_mask.rule if isinstance(attention_mask, MaskHandle) else None)


def split_mask_and_bias(plane: Tensor) -> tuple[Tiled | None, Tensor | None]:
    """Split a mask tensor: who is hidden (False, or at most half the dtype's lowest number), and what is added to the rest."""
    if plane.dtype == torch.bool:
        return TensorMask(plane), None
    hidden = plane <= torch.finfo(plane.dtype).min / 2
    added = plane.masked_fill(hidden, 0)
    return TensorMask(~hidden) if bool(hidden.any()) else None, added if bool((added != 0).any()) else None


class MaskSplitter:
    """`masked_and_added`, remembering the last mask and the last bias: most layers of a pass share them."""

    def __init__(self) -> None:
        self.last: list[tuple[Tensor, int, tuple[int, ...], tuple[Tiled | None, Tensor | None]]] = []

    def __call__(self, tensor: Tensor, plane: Tensor) -> tuple[Tiled | None, Tensor | None]:
        for of, version, shape, result in self.last:
            if of is tensor and version == tensor._version and shape == plane.shape:
                return result
        result = split_mask_and_bias(plane)
        self.last = [*self.last[-1:], (tensor, tensor._version, tuple(plane.shape), result)]
        return result


class TensorMask(LazyMask):
    """A mask that the model built as a tensor."""

    def __init__(self, mask: Bool[Tensor, "#B #H #T #S"]) -> None:
        self.mask = mask
        self._visible: VisibleKeys | None = None

    def tile(self, rows: slice, keys: slice) -> Tensor:
        return tile_of(self.mask, rows, keys)

    def intervals(self) -> VisibleKeys:
        if self._visible is None:
            extent = find_extent(self.tile, self.mask.shape[2], self.mask.shape[3], self.mask.device)
            self._visible = VisibleKeys(extent.first, extent.stop, None if extent.whole else self.mask)
        return self._visible


class IndexedKeys(LazyMask):
    """Sparse attention: each query sees the keys of a list, where another mask allows them."""

    def __init__(self, indices: Int[Tensor, "B T n"], keys: int, others: Tensor | Tiled | None) -> None:
        self.indices, self.keys, self.others = indices.long(), keys, others

    def tile(self, rows: slice, keys: slice) -> Tensor:
        chosen = self.indices[:, rows]
        listed = torch.zeros(*chosen.shape[:2], self.keys, dtype=torch.bool, device=chosen.device).scatter_(-1, chosen, True)
        seen = listed[:, None, :, keys]
        return seen if self.others is None else seen & tile_of(self.others, rows, keys)

    def intervals(self) -> VisibleKeys | None:
        return None


def _softcap(module: nn.Module, call: Call, given: Any, query: Query, keys: int, split_mask: "MaskSplitter") -> Call:
    return replace(call, softcap=float(given))


def _sink(module: nn.Module, call: Call, given: Tensor, query: Query, keys: int, split_mask: "MaskSplitter") -> Call:
    b, h, t, _ = query.shape
    given = given if torch.is_grad_enabled() else given.detach()
    if given.numel() == h:
        return replace(call, sink=given.reshape(-1))
    if given.dim() != 4 or given.shape[3] != 1 or any(have not in (1, need) for have, need in zip(given.shape, (b, h, t), strict=False)):
        raise ModelError(f"sinks of {type(module).__name__} must be a logit for each head, or each row [B, H, T, 1], got shape {list(given.shape)}.")
    # softmax([s, c]) = softmax([s - c, 0]): a sink of each row's own is one of 0 beside scores that are lower by it
    bias = -given.expand(-1, h, t, -1)
    return replace(call, sink=given.new_zeros(h), bias=bias if call.bias is None else _summed(call.bias, bias))


def _bias(module: nn.Module, call: Call, given: Tensor, query: Query, keys: int, split_mask: "MaskSplitter") -> Call:
    if isinstance(given, DiagonalTensor):
        if call.bias is None and given.made is None and given.dim() <= 4 and given.axes == (-2, -1) and given.shape[-2:] == (query.shape[2], keys):
            return replace(call, bias=given.plane())
        given = given.whole()
    mask, bias = split_mask(given, _plane(module, "position_bias", given, query, keys))
    if isinstance(mask, TensorMask) and call.mask is not None:
        mask = MaskIntersection(mask, call.mask)
    if bias is not None and call.bias is not None:
        bias = _summed(call.bias, bias)
    return replace(call, mask=mask if mask is not None else call.mask, bias=bias if bias is not None else call.bias)


def _summed(one: Tensor | Tiled, other: Tensor) -> Tensor | Tiled:
    return one + other if isinstance(one, Tensor) else SummedBias(one, other)


def _indices(module: nn.Module, call: Call, given: Tensor, query: Query, keys: int, split_mask: "MaskSplitter") -> Call:
    return replace(call, mask=IndexedKeys(given, keys, call.mask))


class SummedBias(Tiled):
    """The sum of two biases."""

    def __init__(self, one: Tiled, other: Tensor) -> None:
        self.one, self.other = one, other

    def tile(self, rows: slice, keys: slice) -> Tensor:
        return self.one.tile(rows, keys) + tile_of(self.other, rows, keys)


class MaskIntersection(LazyMask):
    """Visible by both of two masks."""

    def __init__(self, one: Tensor | Tiled, other: Tensor | Tiled) -> None:
        self.one, self.other = one, other

    def tile(self, rows: slice, keys: slice) -> Tensor:
        return tile_of(self.one, rows, keys) & tile_of(self.other, rows, keys)

    def intervals(self) -> VisibleKeys | None:
        return None


HANDLED_KWARGS: Mapping[str, Callable[[nn.Module, Call, Any, Query, int, MaskSplitter], Call]] = {
    "softcap": _softcap,
    "s_aux": _sink,
    "sinks": _sink,
    "position_bias": _bias,
    "indices": _indices,
}
NOTES = {"position_bias": "its position bias is a tensor that the model built itself"}


def _refuse_dropout(module: nn.Module, dropout: float) -> None:
    if dropout and module.training:
        raise ModelError(f"dropout must be off while heads are read, got {dropout} in {type(module).__name__}. Call eval() on the model.")


def _tensors(module: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> tuple[Query, Key, Value]:
    shapes = [list(x.shape) for x in (query, key, value)]
    if any(x.dim() != 4 for x in (query, key, value)):
        raise ModelError(f"query, key and value of {type(module).__name__} must be [batch, heads, length, width], got {shapes}.")
    b = max(x.shape[0] for x in (query, key, value))
    query, key, value = (x.expand(b, *x.shape[1:]) for x in (query, key, value))  # learned queries have a batch of 1
    h, g = query.shape[1], key.shape[1]
    if h % g or value.shape[1:3] != key.shape[1:3] or query.shape[3] != key.shape[3]:
        raise ModelError(f"heads and widths of {type(module).__name__} must fit together, got query, key and value of {shapes}.")
    return query, key, value


def _offsets(query: Query, offset: int) -> Int[Tensor, " B"]:
    return torch.full((query.shape[0],), offset, dtype=torch.int64, device=query.device)


def _scale(module: nn.Module, scaling: Any, query: Query) -> float:
    if scaling is None:
        return query.shape[-1] ** -0.5
    if isinstance(scaling, Tensor) and scaling.numel() != 1:
        raise ModelError(f"scaling of {type(module).__name__} must be one number, got shape {list(scaling.shape)}.")
    return float(scaling)


def _is_one_row(handle: MaskHandle, queries: int) -> bool:
    """Whether a mask was stated for one query and is meant for several."""
    return handle.rule.queries == 1 and queries > 1


def _check_described(module: nn.Module, handle: MaskHandle, query: Query, keys: int) -> None:
    rule = handle.rule
    fits = rule.queries == query.shape[2] and rule.keys >= keys and rule.batch in (1, query.shape[0])
    if not fits:
        have = [query.shape[0], query.shape[2], keys]
        raise ModelError(f"the mask of {type(module).__name__} must fit batch, queries and keys {have}, got {[rule.batch, rule.queries, rule.keys]}.")


def _plane(module: nn.Module, name: str, plane: Any, query: Query, keys: int) -> Tensor:
    """The tensor with 4 axes, each of full length or 1; keys that the call does not have are cut off, as eager attention does."""
    if not isinstance(plane, Tensor) or not (plane.is_floating_point() or plane.dtype == torch.bool):
        got = plane.dtype if isinstance(plane, Tensor) else type(plane).__name__
        raise ModelError(f"{name} of {type(module).__name__} must be a bool or float tensor, got {got}.")
    full = (*query.shape[:3], keys)
    plane = plane.detach().reshape((1,) * (4 - plane.dim()) + tuple(plane.shape))[..., :keys] if plane.dim() <= 4 else plane
    if plane.dim() != 4 or any(have not in (1, need) for have, need in zip(plane.shape, full, strict=False)):
        raise ModelError(f"{name} of {type(module).__name__} must broadcast to [batch, heads, queries, keys] = {list(full)}, got {list(plane.shape)}.")
    return plane.expand(-1, -1, -1, keys)
