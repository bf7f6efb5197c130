"""A model built from its configuration alone: it runs, and its large weights take no room.

What a model is made of (its attention calls, which rows make which head) does not depend on its numbers. A large weight here
is a window that slides over a few random ones: w[i, j] = noise[i + j].
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import CheckpointError
from headwise.models.loading.open_model import FAILURES, check_needs_no_code, class_of, needs_code

SMALL = 1 << 16  # numbers of a parameter that is filled with its own: norms, biases, sinks
GAIN = 0.05  # of the random numbers: small enough that a deep model stays finite


def empty_model(folder: Path, numbers: Callable[[str, tuple[int, ...]], Tensor | None]) -> PreTrainedModel:
    """The model of a folder's configuration, in float32 and eval mode.

    Args:
        numbers: a small parameter's own numbers, by name and shape, or None.

    Raises:
        CheckpointError: the configuration cannot be read, or builds no model.
    """
    config = config_of(folder)
    check_needs_no_code(str(folder), config)
    kind: Any = class_of(config, False)
    try:
        with _without_room():
            hf = kind.from_config(config) if hasattr(kind, "from_config") else kind(config)
    except FAILURES as error:
        raise _refused(folder, error) from None
    generator = torch.Generator().manual_seed(0)
    filled: dict[int, nn.Parameter] = {}
    for name, parameter in list(hf.named_parameters()):
        own = numbers(name, tuple(parameter.shape)) if parameter.numel() <= SMALL else None
        filled[id(parameter)] = nn.Parameter(own.float() if own is not None else _sliding(parameter.shape, generator), requires_grad=False)
    for module in hf.modules():
        module._parameters.update({key: filled[id(x)] for key, x in module._parameters.items() if x is not None})
    return hf.eval()


def config_of(folder: Path) -> Any:
    """The folder's configuration.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    except FAILURES as error:
        raise _refused(folder, error) from None


def _refused(folder: Path, error: Exception) -> CheckpointError:
    if "trust_remote_code" in str(error):
        return CheckpointError(needs_code(str(folder)))
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return CheckpointError(f"a checkpoint must have a configuration that transformers builds, got {str(folder)!r}: {reason}")


def prefix_of(folder: Path) -> str:
    """The name of the base model inside a model: parameters may be stored with it or without."""
    return getattr(class_of(config_of(folder), False), "base_model_prefix", "")


def _sliding(shape: Any, generator: torch.Generator) -> Tensor:
    noise = torch.randn(sum(shape) + 1, generator=generator) * GAIN
    return noise.as_strided(tuple(shape), (1,) * len(shape))


@contextmanager
def _without_room() -> Iterator[None]:
    """In this thread, parameters of new modules get a shape and no memory; buffers, which modules compute, are as ever."""
    thread, register = threading.get_ident(), nn.Module.register_parameter

    def registered(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and param.device.type != "meta" and threading.get_ident() == thread:  # tied ones stay tied
            param = nn.Parameter(param.detach().to("meta"), requires_grad=False)
        register(self, name, param)

    nn.Module.register_parameter = registered
    try:
        yield
    finally:
        nn.Module.register_parameter = register
