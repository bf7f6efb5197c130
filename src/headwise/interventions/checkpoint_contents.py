"""Which files make up a checkpoint: what a save copies from the source, and what it may replace at the destination."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwise.interventions.save_record import RECORD
from headwise.models.loading.checkpoint_files import PICKLES
from headwise.storage.atomic_folder import Replacing
from headwise.storage.contained_files import contained_file, leads_out
from headwise.storage.source_files import Origin

WEIGHTS, INDEX = "*.safetensors", "*.safetensors.index.json"
OTHER_WEIGHTS = (*PICKLES, "*.gguf", "*.onnx", "*.onnx_data", "*.tflite", "*.ot", "*.mlmodel")
# Files that transformers reads by name: a new one replaces an old one, and an old one left among new ones would be read with them.
READ_BY_NAME = (
    *(WEIGHTS, INDEX, "config.json", "generation_config.json", "adapter_config.json", "modules.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt"),
    *("*.model", "*.tiktoken", "tekken.json", "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "processor_config.json"),
)


@dataclass(frozen=True)
class SourceContents:
    """The files of a source checkpoint, by how they are saved.

    Attributes:
        shards: the model's weights, written with the edits.
        copied: files copied byte for byte.
        left_out: the reason for each file that is not copied, and for each folder, whose name ends in "/".
    """

    shards: tuple[str, ...]
    copied: tuple[str, ...]
    left_out: Mapping[str, str]


def source_contents(origin: Origin) -> SourceContents:
    """Which files of a source are written, copied or left out. A subfolder is copied completely or left out completely.

    Raises:
        CheckpointError: a weight file lies outside the source's folder, or is no regular file.
    """
    own = [name for name in origin.files if "/" not in name]
    left_out = {name: "weights in another format" for name in own if _matches(name, OTHER_WEIGHTS)}
    weights = [name for name in own if _matches(name, (WEIGHTS,))]
    shards = _read_weights(origin.folder, weights)
    for name in shards:
        contained_file(origin.folder, name)
    left_out |= {name: "weights that transformers does not read" for name in weights if name not in shards}
    folders = dict.fromkeys(name.partition("/")[0] for name in origin.files if "/" in name)
    left_out |= {f"{folder}/": why for folder in folders if (why := _why_left_out(folder, origin)) is not None}
    left_out |= dict.fromkeys(_linked_folders(origin.folder), "a link to a folder")
    left_out |= {name: "a link that leads out of the folder" for name in origin.files if name not in left_out and leads_out(origin.folder, name)}
    gone = {RECORD, *shards}
    copied = [name for name in origin.files if name not in gone and name not in left_out and f"{name.partition('/')[0]}/" not in left_out]
    return SourceContents(tuple(sorted(shards)), tuple(copied), left_out)


def replacing() -> Replacing:
    """What a save may replace in an existing checkpoint: files that transformers reads by name, and unchanged files that headwise wrote."""
    record_of = cache(_record)

    def ours(folder: Path, name: str) -> bool:
        record = record_of(folder)
        if name == RECORD or record is None:
            return record is not None
        known = name in record["written"] if "written" in record else is_read_by_name(name)  # an earlier version kept no such list
        return known and record["files"].get(name) == sha256(folder / name)

    return Replacing(ours, is_read_by_name, is_read_by_name)


def is_read_by_name(name: str) -> bool:
    """Whether transformers reads a file of this name as part of the checkpoint."""
    return "/" not in name and _matches(name, READ_BY_NAME)


def sha256(path: Path) -> str:
    """The SHA-256 of a file; empty if there is no file."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record(folder: Path) -> dict[str, Any] | None:
    if not (folder / RECORD).is_file():  # a named pipe would block
        return None
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "headwise" in found and isinstance(found.get("files"), dict) else None


def _read_weights(folder: Path, weights: list[str]) -> list[str]:
    """The weight files that transformers loads: `model.safetensors`, or those listed in an index; all if there is neither."""
    if "model.safetensors" in weights:
        return ["model.safetensors"]
    listed: set[str] = set()
    for index in folder.glob(INDEX):
        listed |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return [name for name in weights if name in listed] or weights


def _why_left_out(folder: str, origin: Origin) -> str | None:
    if folder.startswith("."):
        return "a hidden folder"
    inside = [name for name in origin.files if name.startswith(f"{folder}/")]
    if not any(_matches(name, (WEIGHTS, *OTHER_WEIGHTS)) for name in inside) or folder in _modules(origin.folder):
        return None
    return "holds weights that are not part of this model"


def _modules(folder: Path) -> set[str]:
    """The subfolders that sentence-transformers lists as parts of the model, such as pooling and dense layers."""
    try:
        listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return {str(module["path"]).partition("/")[0] for module in listed}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _linked_folders(folder: Path) -> list[str]:
    found = []
    for base, folders, _ in os.walk(folder):
        found += [Path(base, name).relative_to(folder).as_posix() for name in folders if Path(base, name).is_symlink()]
    return sorted(found)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(Path(name).match(pattern) for pattern in patterns)
