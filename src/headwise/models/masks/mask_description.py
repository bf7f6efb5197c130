"""The mask of a model kept as a function of batch row, query and key, and as padding, never as a tensor.

transformers asks the registered mask function for a tensor; it gets a `MaskHandle`, which has the shape and dtype of one but holds
only the description. Handed on untouched, no T x S tensor is ever made. A model that computes with it (indexes it, adds to
it) gets the additive tensor that it would have got from eager attention, and hands that over instead.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from transformers.masking_utils import eager_mask, sdpa_mask

from headwise.attention.mask import LazyMask, VisibleKeys
from headwise.axes import Bool, Float, Int, Tensor
from headwise.models.masks.key_intervals import KeyExtent, find_extent


class MaskDescription(LazyMask):
    """Query i of batch row b sees key j when the model's mask function returns True and j is not padding.

    Attributes:
        offset: the key index at which the first query stands.
        padding: True where a key is real, [B, S]; None where all are.
        left_out_by_sdpa: a causal mask of a model loaded with eager, which with sdpa would be left to the module's `is_causal`.
    """

    left_out_by_sdpa = False

    def __init__(
        self,
        *,
        batch_size: int,
        q_length: int,
        kv_length: int,
        q_offset: int | Tensor = 0,
        kv_offset: int = 0,
        mask_function: Callable[..., Tensor],
        attention_mask: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        use_vmap: bool = False,
        device: torch.device | str = "cpu",
        **_: object,
    ) -> None:
        self.batch, self.queries, self.keys = batch_size, q_length, kv_length
        self.q_offset, self.kv_offset = int(q_offset), int(kv_offset)
        self.mask_function, self.use_vmap = mask_function, use_vmap
        self.dtype, self.device = dtype, torch.device(device)
        self.attention_mask = attention_mask
        self.padding = self._padding(attention_mask)
        self._visible: VisibleKeys | None = None
        self._whole: Tensor | None = None
        self._lock = Lock()

    @property
    def offset(self) -> int:
        return self.q_offset - self.kv_offset

    def key_positions(self) -> Int[Tensor, "#B S"]:
        """The position of each key in its own text, counted from 0; negative for padding before the text.

        A cache with a sliding window holds the last keys only; padding on the left moves a text: neither changes a position.
        """
        stop = self.kv_offset + self.keys
        if self.attention_mask is None or self.attention_mask.dim() != 2:
            return torch.arange(self.kv_offset, stop, device=self.device)[None]
        real = torch.nn.functional.pad(self.attention_mask[:, :stop].bool(), (0, max(0, stop - self.attention_mask.shape[1])), value=True)
        starts = real.int().argmax(1, keepdim=True).to(self.device)  # where each text begins
        return torch.arange(self.kv_offset, stop, device=self.device)[None] - starts

    def tile(self, rows: slice, keys: slice) -> Bool[Tensor, "#B 1 t s"]:
        """The rule and the padding, under these rows and keys."""
        seen = self._rule(rows, keys)
        return seen if self.padding is None else seen & self.padding[:, None, None, keys]

    def intervals(self) -> VisibleKeys:
        """First and last key of every row, which is the whole mask where rows see intervals; found once, then kept."""
        with self._lock:
            if self._visible is None:
                extent = find_extent(self._rule, self.queries, self.keys, self.device)
                self._visible = self._with_padding(extent)
            return self._visible

    def whole(self) -> Float[Tensor, "B 1 T S"]:
        """What eager attention would have been given: 0 where seen, the lowest number where hidden; made once: what is written into it stays."""
        if self._whole is None:
            self._whole = _elsewhere(self._additive) if self.use_vmap else self._additive()
        return self._whole  # pyright: ignore[reportReturnType]

    @property
    def written(self) -> bool:
        """Whether the model got the tensor, and may have written into it: then the tensor counts, no longer the description."""
        return self._whole is not None

    def _additive(self) -> Float[Tensor, "B 1 T S"]:
        return eager_mask(
            batch_size=self.batch,
            q_length=self.queries,
            kv_length=self.keys,
            q_offset=self.q_offset,
            kv_offset=self.kv_offset,
            mask_function=self.mask_function,
            attention_mask=self.attention_mask,
            dtype=self.dtype,
            use_vmap=self.use_vmap,
            device=self.device,
        ).clone()

    def _rule(self, rows: slice, keys: slice) -> Bool[Tensor, "#B 1 t s"]:
        seen = sdpa_mask(
            batch_size=self.batch,
            q_length=rows.stop - rows.start,
            kv_length=keys.stop - keys.start,
            q_offset=self.q_offset + rows.start,
            kv_offset=self.kv_offset + keys.start,
            mask_function=self.mask_function,
            allow_is_causal_skip=False,
            use_vmap=self.use_vmap,
            device=self.device,
        )
        return seen[:1] if seen.stride(0) == 0 else seen  # the same for every batch row, as most rules are  # pyright: ignore[reportReturnType]

    def _padding(self, mask: Tensor | None) -> Bool[Tensor, "B S"] | None:
        if mask is None:
            return None
        stop = self.kv_offset + self.keys
        known = mask[:, self.kv_offset : stop].bool()
        real = torch.nn.functional.pad(known, (0, self.keys - known.shape[1]))
        return None if bool(real.all()) else real.to(self.device)

    def _with_padding(self, extent: KeyExtent) -> VisibleKeys:
        if self.padding is None:
            return VisibleKeys(extent.first, extent.stop, None if extent.whole else self)
        real = find_extent(lambda rows, keys: self.padding[:, None, None, keys], 1, self.keys, self.device)
        first, stop = torch.maximum(extent.first, real.first), torch.minimum(extent.stop, real.stop)
        if not extent.whole:
            return VisibleKeys(first, stop, self)
        return VisibleKeys(first, stop, None if real.whole else self.padding[:, None, None, :])


class MaskHandle(torch.Tensor):
    """A tensor without data that holds a mask description."""

    rule: MaskDescription

    @staticmethod
    def __new__(cls, rule: MaskDescription) -> "MaskHandle":
        shape = (rule.batch, 1, rule.queries, rule.keys)
        handle = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=rule.dtype, device=rule.device)  # pyright: ignore[reportAttributeAccessIssue]
        handle.rule = rule
        return handle

    def __repr__(self, **_: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"MaskHandle({list(self.shape)})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], MaskHandle) and _leaves_as_is(func, args, kwargs or {}):
            return MaskHandle(args[0].rule)
        args, kwargs = tree_map_only(MaskHandle, lambda handle: handle.rule.whole(), (args, kwargs or {}))
        return func(*args, **kwargs)


def _elsewhere(make: Callable[[], Tensor]) -> Tensor:
    """Made in a thread of its own: a model asks for the tensor in the middle of an operator, where vmap cannot run."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(torch.no_grad()(make)).result()


def _leaves_as_is(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the operation gives the whole mask back: an alias, or a slice from end to end."""
    handle, aten = args[0], torch.ops.aten
    if func in (aten.alias.default, aten.detach.default):
        return True
    if func is aten._to_copy.default:
        return kwargs.get("dtype", handle.dtype) == handle.dtype and kwargs.get("device", handle.device) == handle.device
    if func is aten.slice.Tensor:
        dim, start, stop, step = (*args[1:], *(0, None, None, 1)[len(args) - 1 :])
        return (start or 0) == 0 and (stop is None or stop >= handle.shape[dim]) and step == 1
    return False
