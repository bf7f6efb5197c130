"""A short input that a model accepts, to find its attention calls; its content does not matter."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import ArgumentError
from headwise.models.model_info import text_config

LENGTH = 7


def sample_input(hf: nn.Module) -> Tensor | dict[str, Any]:
    """Token ids, an image or sound of random numbers, as `Model.run` takes them.

    Raises:
        ArgumentError: what the model reads is none of these.
    """
    name = hf.main_input_name if isinstance(hf, PreTrainedModel) else ""
    config: Any = getattr(hf, "config", None)
    if name == "input_ids":
        words = getattr(text_config(hf), "vocab_size", None) or 100
        return torch.arange(3, 3 + LENGTH).remainder(words)
    if name == "pixel_values" and isinstance(getattr(config, "image_size", None), int):
        return {"pixel_values": torch.rand(1, getattr(config, "num_channels", 3), config.image_size, config.image_size)}
    if name == "input_features" and hasattr(config, "num_mel_bins"):
        decoder = {"decoder_input_ids": torch.arange(3, 3 + LENGTH)[None]} if getattr(config, "is_encoder_decoder", False) else {}
        return {"input_features": torch.rand(1, config.num_mel_bins, 2 * getattr(config, "max_source_positions", 50)), **decoder}
    raise ArgumentError(f"inputs must be given for a model that reads no text, image or sound, got {type(hf).__name__}. Pass a dict of its own inputs.")
