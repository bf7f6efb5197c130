"""The two checkpoints of a comparison: what each is made of, and where its heads are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.analysis.checkpoints.parameter_source import ADAPTER, Adapted, InMemory, OnDisk, Weights, adapter_config, merged
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError, UnsupportedAdapter
from headwise.interventions.head_parameters import HeadMap
from headwise.models.hooks.derived_model import derive_model
from headwise.models.loading.checkpoint_files import check_contained
from headwise.models.loading.demo import demo
from headwise.models.loading.empty_model import config_of, empty_model, prefix_of
from headwise.models.loading.open_model import open_model
from headwise.models.model import Model
from headwise.storage.source_files import origin_of

NAMES = ("model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """One of the two.

    Attributes:
        head_map: of the model, or of its skeleton: where its heads are.
        adapter: the folder of an adapter on top of the base, if it is one.
    """

    name: str
    given: Any
    head_map: HeadMap
    weights: Weights
    adapter: Path | None = None


def base_of(given: Any, inputs: Any = None) -> Checkpoint:
    """A checkpoint by itself: a model in memory, or a folder whose weights stay on the disk.

    Raises:
        ArgumentTypeError: it is nothing that `open_model` takes.
    """
    if isinstance(given, Model | nn.Module):
        model = given if isinstance(given, Model) else open_model(given)
        return Checkpoint(model.name, given, HeadMap(model, inputs), InMemory(model.hf))
    if not isinstance(given, str | Path):
        raise ArgumentTypeError(f"a checkpoint must be a directory, a hub id, a demo's name or a model, got {type(given).__name__}.")
    folder = _folder(given)
    if folder is None:
        return base_of(open_model(given), inputs)
    if (folder / ADAPTER).is_file():
        raise ArgumentError(f"base must be a whole checkpoint, got the adapter {str(given)!r}. Pass it as tuned, and its base as base.")
    weights = OnDisk(folder, prefix_of(folder))
    hf = empty_model(folder, weights.get)
    return Checkpoint(str(given), given, HeadMap(Model(hf, None, str(given)), inputs), weights)


def tuned_of(given: Any, base: Checkpoint, inputs: Any = None) -> Checkpoint:
    """The other checkpoint: as `base_of`, or an adapter on top of the base.

    Raises:
        ModelError: it is of another architecture.
    """
    folder = Path(given) if isinstance(given, str | Path) else None
    if folder is not None and (folder / ADAPTER).is_file():
        adapter_config(folder)
        try:
            return Checkpoint(str(given), given, base.head_map, Adapted(base.weights, folder), folder)
        except UnsupportedAdapter:
            hf = merged(opened(base).hf, folder)
            return Checkpoint(str(given), given, HeadMap(open_model(hf), inputs), InMemory(hf), folder)
    at = None if isinstance(given, Model | nn.Module) or folder is None else _folder(given)
    if at is not None and _is_like(at, base):
        return Checkpoint(str(given), given, base.head_map, OnDisk(at, prefix_of(at)))
    found = base_of(given, inputs)
    check_alike(base, found)
    return found


def _is_like(folder: Path, base: Checkpoint) -> bool:
    """Whether a folder's heads are where the base's are, so that they need not be found again: the same configuration, and no norms whose sizes count."""
    mine, its = (_settings(config) for config in (getattr(base.head_map.hf, "config", None), config_of(folder)))
    sides = [side for found in base.head_map.projections.values() for side in (found.query, found.key)]
    return mine == its and all(side.linear for side in sides)


def _settings(config: Any) -> dict[str, Any] | None:
    """What a configuration says, but for how and from where it was loaded."""
    if config is None:
        return None
    return {name: x for name, x in config.to_dict().items() if name not in ("dtype", "torch_dtype", "transformers_version", "_name_or_path", "use_cache")}


def opened(found: Checkpoint, base: Checkpoint | None = None) -> Model:
    """The checkpoint as a model that runs."""
    if isinstance(found.given, Model):
        return found.given
    if found.adapter is None:
        return open_model(found.given)
    if isinstance(found.weights, InMemory):
        return open_model(found.head_map.hf)
    model = opened(base) if base is not None else None
    if model is None:
        raise ModelError(f"an adapter must have its base to run, got {found.name!r} alone.")
    parameters = dict(model.hf.named_parameters())
    tensors = {name: found.weights.get(name, tuple(x.shape)) for name, x in parameters.items()}
    changed = {name: x.to(parameters[name]) for name, x in tensors.items() if x is not None and not torch.equal(x.to(parameters[name]), parameters[name])}
    return Model(derive_model(model.hf, changed), model.tokenizer, found.name)


def check_alike(base: Checkpoint, tuned: Checkpoint) -> None:
    """Whether two checkpoints have the same heads in the same places.

    Raises:
        ModelError: they have not.
    """
    for name in NAMES:
        one, two = (_stated(found.head_map.hf, name) for found in (base, tuned))
        if one != two:
            raise ModelError(f"checkpoints must be of one architecture to be compared, got {name} {one} in {base.name!r} and {two} in {tuned.name!r}.")
    one, two = ([(place.part, place.layer, place.heads, place.key_heads) for place in found.head_map.places] for found in (base, tuned))
    if one != two:
        raise ModelError(
            f"checkpoints must have the same heads to be compared, got others in {base.name!r} ({len(one)} layers) and {tuned.name!r} ({len(two)})."
        )


def _stated(hf: Any, name: str) -> Any:
    config = getattr(hf, "config", None)
    if config is None:
        return type(hf).__name__
    try:
        config = config.get_text_config()
    except (ValueError, AttributeError):
        return getattr(config, name, None)
    return getattr(config, name, None)


def _folder(given: str | Path) -> Path | None:
    """The folder of a checkpoint, none of whose files leads out of it; None where it has to be opened first."""
    if str(given).startswith("demo:"):
        where, _ = demo(str(given).removeprefix("demo:"))
        return Path(where) if isinstance(where, str) else None
    origin = None if Path(given).is_dir() else origin_of(str(given))
    folder = Path(given) if Path(given).is_dir() else None if origin is None else origin.folder
    if folder is not None:
        check_contained(folder)
    return folder
