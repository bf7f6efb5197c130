"""Our attention function and our mask function, registered once with transformers under the name `headwise`.

A model set to that name computes with them. While a pass of ours runs in this thread and the calling module belongs to its
clone, the pass records each call; otherwise the function only computes.

Both follow the implementation that the model was loaded with: where its mask function would have left a mask out, so does ours, and
a call without a mask is causal where that implementation takes it to be.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask, sdpa_mask

from headwise.attention.attend import compute
from headwise.models.capture.attention_request import AttentionRequest, MaskSplitter, parse_request
from headwise.models.implementation import IMPLEMENTATION, loaded_implementation
from headwise.models.masks.mask_description import MaskDescription, MaskHandle

if TYPE_CHECKING:
    from headwise.models.capture.recorder import Recorder

HOOK_ATTRIBUTE = "_headwise_call"  # of an attention module: a clone of the module keeps it
UNMASKED_IS_NOT_CAUSAL = ("eager", "flex_attention", "its own")  # implementations for which a call without a mask is never causal
BY_DESCRIPTION = (IMPLEMENTATION, "flex_attention", "flash_attention_2", "flash_attention_3", "flash_attention_4")  # no mask tensor to leave out
DIFFERS = "eager and sdpa differ on this input"

CallHook = Callable[[AttentionRequest], AttentionRequest]

_active: ContextVar["Recorder | None"] = ContextVar("headwise_recorder", default=None)


@cache
def register() -> None:
    """Make both functions known to transformers: for the whole process, once. Registering is a dictionary update, so threads may race here."""
    AttentionInterface.register(IMPLEMENTATION, attention_forward)
    AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)


@contextmanager
def recording(recorder: "Recorder") -> Iterator[None]:
    """Let this recorder, in this thread alone, take over the calls of its modules."""
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
    loaded = _loaded(module)
    stated = parse_request(
        module,
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        dropout=dropout,
        is_causal=is_causal,
        unmasked_is_causal=loaded not in UNMASKED_IS_NOT_CAUSAL,
        model_kwargs=frozenset() if recorder is None else recorder.model_kwargs,
        keywords=keywords,
        split_mask=MaskSplitter() if recorder is None else recorder.split_mask,
    )
    note = None if recorder is None else _difference(recorder, module, loaded, attention_mask, is_causal, query.shape[2])
    stated = stated if note is None else replace(stated, notes=(*stated.notes, note))
    hook: CallHook | None = vars(module).get(HOOK_ATTRIBUTE)
    request = stated if hook is None else hook(stated)
    z = compute(request.query, request.key, request.value, request.call).output if recorder is None else recorder.attend(module, request)
    return z.transpose(1, 2).contiguous(), None


def describe_mask(**stated: Any) -> Tensor | None:
    """What transformers calls for each mask: a description, or None where the model as it was loaded gets none."""
    loaded = loaded_implementation(stated.get("config"))
    function = eager_mask if loaded in BY_DESCRIPTION else ALL_MASK_ATTENTION_FUNCTIONS._global_mapping.get(loaded)
    recorder = _active.get()
    if function is None:
        return None
    if _leaves_out(function, stated):
        if recorder is not None and not _leaves_out(eager_mask, stated):
            recorder.causal_masks_left_out = True
        return None
    description = MaskDescription(**stated)
    description.left_out_by_sdpa = loaded == "eager" and _leaves_out(sdpa_mask, stated)
    return MaskHandle(description)


def _loaded(module: nn.Module) -> str:
    """The implementation of the model that a module belongs to; "its own" for torch's attention."""
    config = getattr(module, "config", None)
    return "its own" if config is None else loaded_implementation(config)


def _difference(recorder: "Recorder", module: nn.Module, loaded: str, mask: Tensor | None, is_causal: bool | None, queries: int) -> str | None:
    """A note where eager and sdpa compute different attention; None where they do not.

    sdpa leaves out a causal mask and relies on the module's `is_causal`; eager always gets the mask and never reads `is_causal`.
    """
    if queries == 1 or loaded not in ("eager", "sdpa") or not recorder.has_sdpa:
        return None
    module_is_causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if mask is None:
        eager, sdpa = loaded == "sdpa" and recorder.causal_masks_left_out, module_is_causal
    elif isinstance(mask, MaskHandle) and mask.rule.left_out_by_sdpa:
        eager, sdpa = True, module_is_causal
    else:
        return None
    if eager == sdpa:
        return None
    hides, does_not = ("eager", "sdpa") if eager else ("sdpa", "eager")
    return f"{DIFFERS}: {hides} hides later keys, {does_not} does not; the model was loaded with {loaded}, and the run follows it"


class _Evaluated(Exception):
    """A mask function was asked for cells, so that the mask is not left out."""


def _leaves_out(function: Callable[..., Any], stated: dict[str, Any]) -> bool:
    """Whether transformers' function for these masks returns none. Seen without making one: before any cell it decides by padding and lengths."""

    def cells(*_: Any) -> Tensor:
        raise _Evaluated

    try:
        return function(**{**stated, "mask_function": cells, "use_vmap": False}) is None
    except _Evaluated:
        return False
