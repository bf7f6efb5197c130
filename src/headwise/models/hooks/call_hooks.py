"""What attention is asked to compute, changed on its way in: a model whose calls come by our function wherever it runs."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from headwise.models.capture.attention_request import AttentionRequest

HOOK_ATTRIBUTE = "_headwise_call"  # an attribute of the calling module: copied with it

CallHook = Callable[[AttentionRequest], AttentionRequest]


def hook_calls(hf: nn.Module, changes: Mapping[str, CallHook]) -> None:
    """Let the calls of these modules, by name, be changed before they are computed; the model is set to our attention function.

    Args:
        hf: a model of our own: it is written into.
    """
    from headwise.models.capture.hf_attention import IMPLEMENTATION, register

    register()
    for module in hf.modules():
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "_attn_implementation_internal"):
            config._attn_implementation_internal = IMPLEMENTATION
    for name, change in changes.items():
        vars(hf.get_submodule(name))[HOOK_ATTRIBUTE] = change


def apply_call_hook(module: nn.Module, request: AttentionRequest) -> AttentionRequest:
    """The call as it is to be computed."""
    change: Any = vars(module).get(HOOK_ATTRIBUTE)
    return request if change is None else change(request)
