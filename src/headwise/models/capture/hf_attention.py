"""Our attention function and our mask function, registered once with transformers under the name `headwise`.

A model set to that name computes with them. While a pass of ours runs in this thread and the calling module belongs to its
twin, the pass is told of every call; otherwise the function only computes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from headwise.attention.attend import compute
from headwise.models.capture.attention_request import TakenApart, read
from headwise.models.hooks.call_hooks import changed
from headwise.models.masks.mask_description import Description, Told

if TYPE_CHECKING:
    from headwise.models.capture.recorder import Watch

NAME = "headwise"
_running: ContextVar["Watch | None"] = ContextVar("headwise_watch", default=None)


@cache
def register() -> None:
    """Make both functions known to transformers: for the whole process, once. Registering is a dictionary update, so threads may race here."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)


@contextmanager
def running(watch: "Watch") -> Iterator[None]:
    """Let this watch, in this thread alone, hear of the calls of its modules."""
    token = _running.set(watch)
    try:
        yield
    finally:
        _running.reset(token)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """What transformers calls for each attention: z as [batch, queries, heads, width], and no weights."""
    watch = _running.get()
    if watch is not None and not watch.has(module):
        watch = None
    read_of = read(
        module,
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        dropout=dropout,
        is_causal=is_causal,
        unmasked_is_causal=watch is None or watch.unmasked_is_causal,
        known=frozenset() if watch is None else watch.known,
        keywords=keywords,
        taken_apart=TakenApart() if watch is None else watch.taken_apart,
    )
    asked = changed(module, read_of)
    z = compute(asked.query, asked.key, asked.value, asked.call).output if watch is None else watch.attend(module, asked)
    return z.transpose(1, 2).contiguous(), None


def mask(**stated: Any) -> Tensor | None:
    """What transformers calls for each mask: a description, or None where eager attention would get none."""
    if stated.get("allow_is_bidirectional_skip") and _hides_nothing(stated):
        return None
    return Told(Description(**stated))


def _hides_nothing(stated: dict[str, Any]) -> bool:
    """Whether transformers itself would leave this mask out; asked for one query, as its answer is about the keys."""
    return eager_mask(**{**stated, "q_length": 1}) is None
