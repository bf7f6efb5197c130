"""Checks of a checkpoint's files before and after loading: safetensors only, complete, and fitting the configuration."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import CheckpointError
from headwise.storage.contained_files import contained_file

READ = ("*.safetensors", "*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja")  # the files of a folder that transformers and peft may read
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")


def check_files(folder: Path) -> None:
    """Check that a directory holds a configuration and complete safetensors files.

    Raises:
        CheckpointError: a file is missing, broken or refused; the message names it.
    """
    check_contained(folder)
    config = folder / "config.json"
    if not config.is_file():
        raise CheckpointError(f"a model directory must hold config.json, got {str(folder)!r} without one. Pass the directory that save_pretrained wrote.")
    try:
        stated = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"config.json must be JSON, got {type(error).__name__} in {str(folder)!r}. Fetch the model again.") from None
    if not isinstance(stated, dict):
        raise CheckpointError(f"config.json must hold an object, got a {type(stated).__name__} in {str(folder)!r}. Fetch the model again.")
    files = sorted(folder.glob("*.safetensors"))
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if not files and pickles:
        raise CheckpointError(
            f"weights must be safetensors, got {pickles[0]} in {str(folder)!r}: a pickle can run code when it is read. "
            "Load it where you trust it and call save_pretrained, which writes safetensors."
        )
    if not files:
        raise CheckpointError(f"a model directory must hold weights, got {str(folder)!r} without a safetensors file. Fetch the model again.")
    for path in [*files, *_listed(folder)]:
        _check_whole(path)


def check_contained(folder: Path) -> None:
    """Check that every file that may be read is a regular file inside the folder: those there, and those that an index names.

    Nothing is opened before its kind is known, so that a named pipe cannot block.

    Raises:
        CheckpointError: one lies outside, or is a pipe, a socket, a device or a folder.
    """
    for pattern in READ:
        for path in sorted(folder.glob(pattern)):
            if pattern == "*.safetensors" or not path.is_dir():
                contained_file(folder, path.name)
    _listed(folder)


def check_fit(hf: PreTrainedModel, info: dict[str, Any]) -> None:
    """Check that the weights fit the configuration.

    Keys that no module of the model could hold (heads for other tasks) are no fault; a key that an existing module lacks
    room for, or a layer beyond the last, is.

    Args:
        told: what `from_pretrained` says of the loading.

    Raises:
        CheckpointError: weights are missing, left over, or of another shape.
    """
    kind = type(hf).__name__
    mismatched = sorted(str(entry[0]) + _shapes(entry) for entry in info.get("mismatched_keys") or ())
    if mismatched:
        raise CheckpointError(f"config.json must fit the weights, got other shapes for {_few(mismatched)} in {kind}. Use the config.json of these weights.")
    missing: list[str] = sorted(info.get("missing_keys") or ())
    if missing:
        raise CheckpointError(f"config.json must fit the weights, got none for {_few(missing)} of {kind}. Use the config.json of these weights.")
    surplus: list[str] = [key for key in sorted(info.get("unexpected_keys") or ()) if _belongs(hf, key)]
    if surplus:
        raise CheckpointError(f"config.json must fit the weights, got {_few(surplus)}, for which {kind} has no place. Use the config.json of these weights.")


def check_numbers(hf: nn.Module) -> None:
    """Check that every weight is finite.

    Raises:
        CheckpointError: one is NaN or infinite.
    """
    for name, weight in hf.named_parameters():
        if weight.is_floating_point() and weight.numel() and weight.device.type != "meta" and not _is_finite(weight.detach()):
            raise CheckpointError(f"weights must be numbers, got NaN or infinity in {name}. Its training or conversion failed: use another checkpoint.")


def _is_finite(weight: Tensor) -> bool:
    lowest, highest = weight.aminmax()  # a NaN anywhere shows in both
    return bool(lowest.isfinite() & highest.isfinite())


def _listed(folder: Path) -> list[Path]:
    """The files that the index lists."""
    found: list[Path] = []
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            found += [contained_file(folder, name) for name in dict.fromkeys(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())]
        except CheckpointError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{index.name} must list the weights' files, got {type(error).__name__}. Fetch the model again.") from None
    return found


def _check_whole(path: Path) -> None:
    try:
        with safe_open(path, framework="pt") as file:
            file.keys()
    except FileNotFoundError:
        raise CheckpointError(f"every file of the weights must be there, got no {path.name} in {str(path.parent)!r}. Fetch the model again.") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} must be a whole safetensors file, got {error} in {str(path.parent)!r}. Fetch the model again.") from None


def _belongs(hf: PreTrainedModel, key: str) -> bool:
    """Whether a left-over key belongs to a module that the model has, or to one more layer of its kind."""
    known = {_pattern(name) for name, _ in hf.named_parameters()}
    prefix = f"{hf.base_model_prefix}."
    for name in {key, key.removeprefix(prefix), prefix + key}:
        owner, _, last = name.rpartition(".")
        if _pattern(name) in known:
            return True
        module = _submodule(hf, owner)
        if owner and module is not None and list(module.parameters(recurse=False)) and last not in dict(module.named_buffers(recurse=False)):
            return True
    return False


def _submodule(hf: PreTrainedModel, name: str) -> nn.Module | None:
    return dict(hf.named_modules()).get(name)


def _pattern(name: str) -> str:
    return ".".join("*" if word.isdigit() else word for word in name.split("."))


def _shapes(entry: Any) -> str:
    return f" ({list(entry[1])} in the file, {list(entry[2])} in the model)" if len(entry) > 2 else ""


def _few(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
