"""A model derived from another: its own modules, hooks and configuration, and the same tensors but for those that are replaced."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from headwise.axes import Tensor
from headwise.models.hooks.shallow_clone import copy_modules


def derive_model(hf: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> Any:
    """Derive a model in the mode and with the attention implementation of the original.

    All tensors but the replaced ones are the original's own: what trains one of the two in place trains both.

    Args:
        tensors: parameters to replace, by qualified name; one that several modules share is replaced in all of them.
    """
    other = copy_modules(hf)
    for name, tensor in (tensors or {}).items():
        old = hf.get_parameter(name)
        new = nn.Parameter(tensor, requires_grad=old.requires_grad)
        for module in other.modules():
            for key, parameter in module._parameters.items():
                if parameter is old:
                    module._parameters[key] = new
    return other
