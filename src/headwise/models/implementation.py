"""Names of attention implementations: the one that a model was loaded with, and ours in its place."""

from typing import Any

from torch import nn
from transformers import PreTrainedModel

IMPLEMENTATION = "headwise"  # what our attention function and our mask function are registered as


class SubstitutedImplementation(str):
    """The name `headwise` in a configuration, with the name that it replaces.

    Example:
        >>> name = SubstitutedImplementation("sdpa")
        >>> name == "headwise", name.loaded
        (True, 'sdpa')
    """

    loaded: str

    def __new__(cls, loaded: str) -> "SubstitutedImplementation":
        name = super().__new__(cls, IMPLEMENTATION)
        name.loaded = loaded
        return name

    def __getnewargs__(self) -> tuple[str]:
        return (self.loaded,)


def substitute(config: Any) -> None:
    """Set a configuration to our implementation; it keeps the name of the one that the model was loaded with."""
    config._attn_implementation_internal = SubstitutedImplementation(loaded_implementation(config))


def loaded_implementation(config: Any) -> str:
    """The implementation that the model of this configuration was loaded with; "eager" where none is named."""
    name = getattr(config, "_attn_implementation", None)
    return getattr(name, "loaded", name) or "eager"


def implementation_of(model: nn.Module) -> str:
    """The attention implementation that a model runs with; "its own" for a module that is none of transformers."""
    return (model.config._attn_implementation or "eager") if isinstance(model, PreTrainedModel) else "its own"
