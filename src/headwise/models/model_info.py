"""What can be asked of a model, whether it is one of transformers or any other torch module."""

from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def text_config(model: nn.Module) -> Any:
    """The configuration of what reads text, or None."""
    if not isinstance(model, PreTrainedModel):
        return None
    try:
        return model.config.get_text_config()
    except ValueError:  # it has several
        return model.config


def is_encoder_decoder(model: nn.Module) -> bool:
    return isinstance(model, PreTrainedModel) and bool(getattr(model.config, "is_encoder_decoder", False))


def device_of(model: nn.Module) -> torch.device:
    """Where its inputs belong: where accelerate runs it, or else where its first parameter is that is anywhere."""
    runs = getattr(getattr(model, "_hf_hook", None), "execution_device", None)
    if runs is not None:
        return torch.device(runs)
    return next((x.device for x in model.parameters() if not x.is_meta), torch.device("cpu"))


def main_input(model: nn.Module) -> str:
    """The name of the argument that a lone tensor is."""
    if isinstance(model, PreTrainedModel):
        return "input_ids"
    names = [name for name, x in signature(model.forward).parameters.items() if x.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    return names[0] if names else "input"
