"""What attention is asked to compute, changed on its way in: a model whose calls come by our function wherever it runs."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from headwise.models.capture.attention_request import Asked

CHANGE = "_headwise_call"  # an attribute of the calling module: copied with it

CallChange = Callable[[Asked], Asked]


def set_calls_changed(hf: nn.Module, changes: Mapping[str, CallChange]) -> None:
    """Let the calls of these modules, by name, be changed before they are computed; the model is set to our attention function.

    Args:
        hf: a model of our own: it is written into.
    """
    from headwise.models.capture.hf_attention import NAME, register

    register()
    for module in hf.modules():
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "_attn_implementation_internal"):
            config._attn_implementation_internal = NAME
    for name, change in changes.items():
        vars(hf.get_submodule(name))[CHANGE] = change


def changed(module: nn.Module, asked: Asked) -> Asked:
    """The call as it is to be computed."""
    change: Any = vars(module).get(CHANGE)
    return asked if change is None else change(asked)
