"""An edited model as a checkpoint that transformers loads: whole, with everything that no edit touches byte for byte."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from transformers import PreTrainedModel

import headwise
from headwise.axes import Tensor
from headwise.errors import ArgumentError, CheckpointError, ModelError
from headwise.interventions.checkpoint_contents import INDEX, SourceContents, is_read_by_name, replacing, sha256, source_contents
from headwise.interventions.edit_list import edits_to_json
from headwise.interventions.edit_plan import EditPlan, apply_plan, plan_edits
from headwise.interventions.safetensors_shard import Shard, bytes_of, shard_of, write_shard
from headwise.interventions.save_record import RECORD, Saved
from headwise.interventions.tensor_names import check_memory, stored_names
from headwise.models.model_info import text_config
from headwise.storage.atomic_folder import atomic_folder, check_replaceable
from headwise.storage.source_files import Origin

if TYPE_CHECKING:
    from headwise.interventions.edited import EditedModel

Hashes = dict[str, tuple[str, str]]


def save(edited: "EditedModel", folder: Path, overwrite: bool = False) -> Saved:
    """Write the edited model to a folder.

    Files, shards and the order of tensors are the source's; a tensor that no edit touches keeps its bytes. Tokenizer,
    configuration and the rest are copied; weights in other formats are left out, and so are whole folders inside that hold weights, unless
    they are listed as parts of the model. `headwise.json` says what was done, by which version, has the SHA-256 of every tensor and file before
    and after, and names what was left out. The folder is there whole or not at all.

    Args:
        overwrite: replace the checkpoint that is there; without it the folder must be new or empty. What transformers reads by its name is replaced,
            and what headwise itself wrote; every other file there stays as it is. Where that is not possible nothing is written: a file of somebody
            else that has the name of a new one, or one that would be read together with the new ones (weights, a tokenizer).

    Raises:
        ModelError: an edit that can only be made as the model runs; no room on the disk.
        CheckpointError: the source has changed since it was opened.
        ArgumentError: there is something at that place already.
    """
    plan = _in_weights(edited)
    hf: Any = edited.base.hf
    if not isinstance(hf, PreTrainedModel):
        raise ModelError(f"a model must be one of transformers to be saved as a checkpoint, got {type(hf).__name__}. Save its state_dict yourself.")
    origin = edited.base.origin
    if origin is None:
        return _save_loaded(edited, plan, folder, overwrite)
    _check_unchanged(origin)
    folder, rules, contents = _place(folder, overwrite), replacing() if overwrite else None, source_contents(origin)
    check_replaceable(folder, rules, {RECORD: origin.folder / RECORD, **{name: origin.folder / name for name in (*contents.shards, *contents.copied)}})
    shards = [shard_of(origin.folder / name) for name in contents.shards]
    names = stored_names(hf, plan.parameters, shards)
    check_memory(hf, shards)
    replaced = _replaced(plan, names, shards)
    size = sum(origin.files[name][0] for name in (*contents.copied, *contents.shards))
    with atomic_folder(folder, rules, size) as part:
        hashes = _write_shards(shards, replaced, part)
        for name in contents.copied:
            _copy(origin.folder / name, part / name)
        if plan.pruning is not None:
            _shrink(part, hf, plan)
        _read_back(part, replaced)
        _check_unchanged(origin)
        record = _record(edited, hashes, part, folder, contents)
    return _saved(folder, hashes, record)


def _place(folder: Path, overwrite: bool) -> Path:
    """Where the checkpoint goes.

    Raises:
        ArgumentError: what is overwritten is no checkpoint.
    """
    place = folder.expanduser().resolve()
    if overwrite and place.is_dir() and any(place.iterdir()) and not (place / "config.json").is_file():
        raise ArgumentError(f"what is overwritten must be a checkpoint, got {str(place)!r} without config.json. Choose another folder.")
    return place


def _in_weights(edited: "EditedModel") -> EditPlan:
    """All the edits made in the weights.

    Raises:
        ModelError: one cannot be.
    """
    for one in edited.edits:
        why = one.weights_refusal(edited.head_map)
        if why is not None:
            raise ModelError(f"{one} cannot be saved: {why}. Save the list of edits instead, with write_edits.")
    return plan_edits(edited.edits, edited.head_map, "weights")


def _check_unchanged(origin: Origin) -> None:
    changed = origin.changed()
    if changed:
        raise CheckpointError(
            f"a checkpoint must be as it was when it was opened, got changes in {', '.join(changed[:3])}"
            f"{f' and {len(changed) - 3} more' if len(changed) > 3 else ''} of {str(origin.folder)!r}. Open it again."
        )


def _replaced(plan: EditPlan, names: Mapping[str, str], shards: list[Shard]) -> dict[str, Tensor]:
    """The edited tensors under their stored names, in the dtype in which they are stored."""
    homes = {stored.name: shard.path for shard in shards for stored in shard.tensors}
    found: dict[str, Tensor] = {}
    for parameter, name in names.items():
        with safe_open(homes[name], framework="pt") as file:
            found[name] = plan.apply_to(parameter, file.get_tensor(name))
        if not bool(found[name].isfinite().all()):
            raise ModelError(f"edits must leave numbers, got infinity or NaN in {name} as it is stored, {found[name].dtype}. Choose smaller factors.")
    return found


def _write_shards(shards: list[Shard], replaced: Mapping[str, Tensor], part: Path) -> Hashes:
    hashes: Hashes = {}
    for shard in shards:
        with (part / shard.path.name).open("wb") as file:
            hashes |= write_shard(shard, replaced, file)
    return hashes


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _shrink(part: Path, hf: Any, plan: EditPlan) -> None:
    """Let config.json, and the total in an index, say what the smaller matrices are."""
    pruning = plan.pruning
    path = part / "config.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    inner = text_config(hf)
    section = whole if inner is hf.config else next(whole[name] for name, x in vars(hf.config).items() if x is inner and name in whole)
    for name, (_, new) in pruning.settings.items():
        stored = getattr(inner, "attribute_map", {}).get(name, name)
        section[stored if stored in section else name] = new
    _write(path, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    total = sum(stored.stop - stored.start for shard in part.glob("*.safetensors") for stored in shard_of(shard).tensors)
    for index in part.glob(INDEX):
        listed = json.loads(index.read_text(encoding="utf-8"))
        listed.setdefault("metadata", {})["total_size"] = total
        _write(index, json.dumps(listed, indent=2) + "\n")


def _read_back(part: Path, replaced: Mapping[str, Tensor]) -> None:
    """Whether what was written reads as what was meant."""
    left = dict(replaced)
    for path in part.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            for name in set(file.keys()) & set(left):
                if not torch.equal(file.get_tensor(name), left.pop(name).cpu()):
                    raise ModelError(f"what is saved must read as it was written, got other numbers for {name}. Nothing was changed; is the disk sound?")


def _record(edited: "EditedModel", hashes: Hashes, part: Path, place: Path, contents: SourceContents | None) -> dict[str, Any]:
    """Write what was done, by which version, on which files.

    `written` names the files that are ours: not those of the same content that somebody else had put there, which stay theirs.
    """
    origin, rules = edited.base.origin, replacing()
    names = sorted(path.relative_to(part).as_posix() for path in part.rglob("*") if path.is_file())
    written = [name for name in names if is_read_by_name(name) or not os.path.lexists(place / name) or rules.ours(place, name)]
    earlier = origin.folder / RECORD if origin is not None else None
    record = {
        "headwise": headwise.__version__,
        "source": edited.base.name,
        "edits": edits_to_json(edited.edits),
        "tensors": {name: {"sha256": after} if before == after else {"sha256": after, "was": before} for name, (before, after) in hashes.items()},
        "files": {name: sha256(part / name) for name in names},
        "written": written,
        "source_files": {} if contents is None else {name: sha256(origin.folder / name) for name in (*contents.shards, *contents.copied) if "/" not in name},
        "left_out": {} if contents is None else dict(contents.left_out),
        **({"earlier": json.loads(earlier.read_text(encoding="utf-8"))} if earlier is not None and earlier.is_file() else {}),
    }
    _write(part / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return record


def _save_loaded(edited: "EditedModel", plan: EditPlan, folder: Path, overwrite: bool) -> Saved:
    """A model that came from no files: transformers writes it, and what no edit touches is compared with the original."""
    hf: Any = apply_plan(edited.head_map, plan)
    size = sum(x.numel() * x.element_size() for x in hf.parameters())
    folder = _place(folder, overwrite)
    with atomic_folder(folder, replacing() if overwrite else None, size) as part:
        hf.save_pretrained(part)
        if edited.tokenizer is not None:
            edited.tokenizer.save_pretrained(part)
        before = dict(edited.base.hf.state_dict())
        hashes: Hashes = {}
        for path in sorted(part.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - not a dictionary
                    after = hashlib.sha256(bytes_of(file.get_tensor(name))).hexdigest()
                    hashes[name] = (hashlib.sha256(bytes_of(before[name])).hexdigest() if name in before else "", after)
        record = _record(edited, hashes, part, folder, None)
    return _saved(folder, hashes, record)


def _saved(folder: Path, hashes: Hashes, record: Mapping[str, Any]) -> Saved:
    changed = tuple(name for name, (before, after) in hashes.items() if before != after)
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())
    others = tuple(name for name in names if name not in record["files"] and name != RECORD)
    return Saved(folder, changed, tuple(name for name in hashes if name not in changed), tuple(record["left_out"]), record, others)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
