"""Hooks that change what chosen modules ask of our attention function, before it computes."""

from collections.abc import Mapping

from torch import nn

from headwise.models.capture.hf_attention import HOOK_ATTRIBUTE, CallHook, register
from headwise.models.implementation import substitute

__all__ = ["CallHook", "hook_calls"]


def hook_calls(hf: nn.Module, hooks: Mapping[str, CallHook]) -> None:
    """Set a model to our attention function and attach hooks to some of its attention modules.

    Args:
        hf: written into: pass a model that nobody else uses, from `derive_model`, say.
        hooks: by qualified name of the attention module. Each takes the request and returns the one to compute.
    """
    register()
    for module in hf.modules():
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "_attn_implementation_internal"):
            substitute(config)
    for name, hook in hooks.items():
        vars(hf.get_submodule(name))[HOOK_ATTRIBUTE] = hook
