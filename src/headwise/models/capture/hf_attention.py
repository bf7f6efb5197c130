"""Our attention function and our mask function, registered once with transformers under the name `headwise`.

A model set to that name computes with them. While a pass of ours runs in this thread and the calling module belongs to its
twin, the pass is told of every call; otherwise the function only computes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from headwise.attention.attend import compute
from headwise.models.capture.attention_request import AttentionRequest, MaskSplitter, parse_request
from headwise.models.masks.mask_description import MaskDescription, MaskHandle

if TYPE_CHECKING:
    from headwise.models.capture.recorder import Recorder

IMPLEMENTATION = "headwise"
HOOK_ATTRIBUTE = "_headwise_call"  # of an attention module: a clone of the module keeps it

CallHook = Callable[[AttentionRequest], AttentionRequest]

_active: ContextVar["Recorder | None"] = ContextVar("headwise_watch", default=None)


@cache
def register() -> None:
    """Make both functions known to transformers: for the whole process, once. Registering is a dictionary update, so threads may race here."""
    AttentionInterface.register(IMPLEMENTATION, attention_forward)
    AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)


@contextmanager
def recording(recorder: "Recorder") -> Iterator[None]:
    """Let this watch, in this thread alone, hear of the calls of its modules."""
    token = _active.set(recorder)
    try:
        yield
    finally:
        _active.reset(token)


def attention_forward(
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
    recorder = _active.get()
    if recorder is not None and not recorder.owns(module):
        recorder = None
    stated = parse_request(
        module,
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        dropout=dropout,
        is_causal=is_causal,
        unmasked_is_causal=recorder is None or recorder.unmasked_is_causal,
        model_kwargs=frozenset() if recorder is None else recorder.model_kwargs,
        keywords=keywords,
        split_mask=MaskSplitter() if recorder is None else recorder.split_mask,
    )
    hook: CallHook | None = vars(module).get(HOOK_ATTRIBUTE)
    request = stated if hook is None else hook(stated)
    z = compute(request.query, request.key, request.value, request.call).output if recorder is None else recorder.attend(module, request)
    return z.transpose(1, 2).contiguous(), None


def describe_mask(**stated: Any) -> Tensor | None:
    """What transformers calls for each mask: a description, or None where eager attention would get none."""
    if stated.get("allow_is_bidirectional_skip") and _hides_nothing(stated):
        return None
    return MaskHandle(MaskDescription(**stated))


def _hides_nothing(stated: dict[str, Any]) -> bool:
    """Whether transformers itself would leave this mask out; asked for one query, as its answer is about the keys."""
    return eager_mask(**{**stated, "q_length": 1}) is None
