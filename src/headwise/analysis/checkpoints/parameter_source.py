"""Where the numbers of a model's parameters come from: a model in memory, the files of a checkpoint read one by one, or an adapter on top of one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import safe_open
from torch import nn

from headwise.axes import Tensor
from headwise.errors import CheckpointError, MissingPackage, UnsupportedAdapter
from headwise.interventions.tensor_names import candidates
from headwise.models.loading.checkpoint_files import check_contained, check_files

ADAPTER = "adapter_config.json"
PLAIN = {"LORA"}  # adapters that are one product a module


@runtime_checkable
class Weights(Protocol):
    """The parameters of a model, by the names that its modules have."""

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        """A parameter's numbers, or None when there is none of this name and shape."""
        ...


class InMemory:
    """The parameters of a loaded model."""

    def __init__(self, hf: nn.Module) -> None:
        self.parameters = dict(hf.named_parameters(remove_duplicate=False))

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        found = self.parameters.get(name)
        return found.detach() if found is not None and tuple(found.shape) == shape else None


class OnDisk:
    """The tensors of a folder's safetensors files, each read when it is asked for.

    Args:
        prefix: the model's `base_model_prefix`: its parameters may be stored with it or without.
    """

    def __init__(self, folder: Path, prefix: str = "") -> None:
        check_files(folder)
        self.folder, self.prefix = folder, prefix
        self.homes: dict[str, Path] = {}
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                self.homes |= dict.fromkeys(file.keys(), path)

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        for stored in candidates(self.prefix, name):
            if stored in self.homes:
                with safe_open(self.homes[stored], framework="pt") as file:
                    if tuple(file.get_slice(stored).get_shape()) == shape:
                        return file.get_tensor(stored)
        return None


class Adapted:
    """A base with a low-rank adapter merged into it: W + scaling · B · A.

    Raises:
        CheckpointError: the folder holds no adapter that can be merged so.
        MissingPackage: an adapter of another kind, and peft is not installed.
    """

    def __init__(self, base: Weights, folder: Path) -> None:
        self.base, self.config = base, adapter_config(folder)
        files = sorted(folder.glob("adapter_model*.safetensors"))
        if not files:
            raise CheckpointError(f"an adapter must have its weights in adapter_model.safetensors, got none in {str(folder)!r}. Save it with safetensors.")
        self.tensors: dict[str, Tensor] = {}
        for path in files:
            with safe_open(path, framework="pt") as file:
                self.tensors |= {name.removeprefix("base_model.model."): file.get_tensor(name) for name in list(file.keys())}
        unknown = [name for name in self.tensors if not name.endswith((".lora_A.weight", ".lora_B.weight"))]
        if unknown or self.config.get("peft_type") not in PLAIN or self.config.get("use_dora"):
            what = unknown[0] if unknown else f"{self.config.get('peft_type')}{' with DoRA' if self.config.get('use_dora') else ''}"
            raise UnsupportedAdapter(f"an adapter must be plain LoRA to be read without its model, got {what} in {str(folder)!r}.")

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        whole = self.base.get(name, shape)
        module = name.removesuffix(".weight")
        down, up = self.tensors.get(f"{module}.lora_A.weight"), self.tensors.get(f"{module}.lora_B.weight")
        if whole is None or down is None or up is None:
            return whole
        delta = (up.double() @ down.double()) * self._scaling(module, down.shape[0])
        return (whole.double() + (delta.t() if tuple(delta.shape) != shape or self.config.get("fan_in_fan_out") else delta)).to(torch.float32)

    def _scaling(self, module: str, rank: int) -> float:
        alpha = _pattern(self.config.get("alpha_pattern") or {}, module, self.config["lora_alpha"])
        return alpha / (rank**0.5 if self.config.get("use_rslora") else rank)


def adapter_config(folder: Path) -> Any:
    """What an adapter says of itself.

    Raises:
        CheckpointError: it cannot be read, or a file of the folder lies outside it.
    """
    check_contained(folder)
    try:
        return json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{ADAPTER} must be JSON, got {type(error).__name__} in {str(folder)!r}. Fetch the adapter again.") from None


def merged(hf: nn.Module, folder: Path) -> nn.Module:
    """A copy of a model with an adapter of any kind merged by peft.

    Raises:
        MissingPackage: peft is not installed.
        CheckpointError: peft cannot merge it.
    """
    import copy

    try:
        from peft import PeftModel
    except ImportError:
        raise MissingPackage("peft must be installed for adapters that are not plain LoRA, got none. Run `pip install 'headwise[lora]'`.") from None
    try:
        adapted: Any = PeftModel.from_pretrained(copy.deepcopy(hf), str(folder))  # pyright: ignore[reportArgumentType]
        return adapted.merge_and_unload()
    except (ValueError, RuntimeError, KeyError, AttributeError, NotImplementedError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"an adapter must be one that peft merges into this base, got {str(folder)!r}: {said}") from None


def wide(x: Tensor) -> Tensor:
    """In float64: differences of checkpoints are small, and dtypes may differ."""
    return x.detach().double().cpu()


def _pattern(patterns: Mapping[str, Any], module: str, otherwise: Any) -> Any:
    """What a pattern of module names says, by the end of the name as peft matches it."""
    return next((value for name, value in patterns.items() if module == name or module.endswith(f".{name}")), otherwise)
