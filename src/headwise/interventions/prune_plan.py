"""Several heads taken out together: which rows go, and the configuration that says so."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import ModelError
from headwise.interventions.edits.prune import Prune
from headwise.interventions.head_parameters import HeadMap
from headwise.models.model_info import text_config
from headwise.models.parameters.head_blocks import HeadBlock
from headwise.models.runs.places import Place

FIX = "Use Ablate, which does the same without shrinking."
ATOMS = (bool, int, float, str)


@dataclass(frozen=True, eq=False)
class PrunePlan:
    """What goes when heads are pruned.

    Attributes:
        removed: by parameter: the rows or columns that go.
        settings: of the configuration (of its part for text), by name: old and new.
        example: the model as the new configuration builds it, without numbers.
        only: the module that is to be resized, where one layer alone shrinks; all of them when None.
    """

    removed: Mapping[str, HeadBlock]
    settings: Mapping[str, tuple[int | None, int]]
    example: Any
    only: str | None = None

    def shrunk(self, parameter: str, whole: Tensor) -> Tensor:
        return self.removed[parameter].without(whole) if parameter in self.removed else whole

    def resize(self, hf: Any) -> None:
        """Let a model's modules know their new sizes: it is written into."""
        built = dict(self.example.named_modules())
        for name, module in hf.named_modules():
            if self.only is not None and name != self.only and not name.startswith(f"{self.only}."):
                continue
            new = vars(built[name])
            vars(module).update({key: value for key, value in new.items() if isinstance(value, ATOMS) and key in vars(module) and key != "training"})
            if self.only is not None and hasattr(module, "config"):
                vars(module)["config"] = copy.deepcopy(module.config)
                _set(module.config, self.settings)
        if self.only is None:
            _set(hf.config, self.settings)


def shrinking(head_map: HeadMap, prunes: Sequence[Prune]) -> PrunePlan:
    """What goes with these heads.

    Raises:
        ModelError: they cannot be taken out of this model; the message says why and offers Ablate.
    """
    gone: dict[int, set[int]] = {place.index: set() for place in head_map.places}
    for prune in prunes:
        gone[head_map.place(prune.layer, prune.head, prune.part).index].add(prune.head)
    parts = {place.part for place in head_map.places if gone[place.index]}
    places = [place for place in head_map.places if place.part in parts]
    for place in places:
        _check_groups(place, gone[place.index])
    counts = {place.index: len(gone[place.index]) for place in places}
    _check_counts(places, counts)
    removed: dict[str, HeadBlock] = {}
    for place in places:
        for block in _blocks(head_map, place, gone[place.index]):
            _check_alone(head_map, place, block)
            held = removed.get(block.parameter)
            removed[block.parameter] = block if held is None else HeadBlock(block.parameter, block.axis, (*held.indices, *block.indices))
    return _fitting(head_map, removed, places[0], counts[places[0].index])


def _check_groups(place: Place, gone: set[int]) -> None:
    """Heads that share a key head go together, and some stay."""
    size = place.heads // place.key_heads
    for key in {head // size for head in gone}:
        readers = set(range(key * size, (key + 1) * size))
        if not readers <= gone:
            raise ModelError(
                f"heads that share a key head must be pruned together, got {_listed(readers & gone)} of {_listed(readers)} in layer {place.layer}. "
                f"Prune all of them. {FIX}"
            )
    if len(gone) == place.heads:
        raise ModelError(f"a layer must keep a head, got all {place.heads} of layer {place.layer} pruned. {FIX}")


def _check_counts(places: Sequence[Place], counts: Mapping[int, int]) -> None:
    if len(set(counts.values())) > 1:
        most = max(counts.values())
        short = [f"{count} in layer {place.layer}" for place in places if (count := counts[place.index]) < most]
        raise ModelError(
            f"as many heads must be pruned in every layer, since a configuration has one number of heads, got {most} in some and {', '.join(short[:3])}"
            f"{f' and {len(short) - 3} more' if len(short) > 3 else ''}. {FIX}"
        )


def _blocks(head_map: HeadMap, place: Place, gone: set[int]) -> list[HeadBlock]:
    found = [head_map.output(place, head) for head in sorted(gone)]
    size = place.heads // place.key_heads
    for name, heads in (("query", sorted(gone)), ("key", sorted({head // size for head in gone})), ("value", sorted({head // size for head in gone}))):
        side = getattr(head_map.projections[place.index], name)
        if side.refusal is not None:
            raise ModelError(f"the rows of each head's {name} must be told apart to be pruned, got none in {place.module}: {side.refusal}. {FIX}")
        if len(side.heads) not in (place.heads, place.key_heads):
            raise ModelError(f"heads of {place.module} must be as many as its configuration says, got {len(side.heads)} of its {name}. {FIX}")
        found += [block for head in heads for block in side.heads[head].blocks]
    return found


def _check_alone(head_map: HeadMap, place: Place, block: HeadBlock) -> None:
    others = head_map.others(place, block.parameter)
    if others:
        raise ModelError(f"a layer must have its own weights to be pruned, got {block.parameter}, which layer {others[0].layer} uses too. {FIX}")


def _fitting(head_map: HeadMap, removed: Mapping[str, HeadBlock], place: Place, count: int) -> PrunePlan:
    """The configuration with fewer heads, if the family builds from it exactly the shapes that are left."""
    hf = head_map.hf
    if not isinstance(hf, PreTrainedModel):
        raise ModelError(f"a model must have a configuration to be pruned, got {type(hf).__name__}, which is none of transformers. {FIX}")
    settings = _settings(text_config(hf), place, count)
    try:
        example = _built(hf, settings)
    except (ValueError, RuntimeError, TypeError, AssertionError, ZeroDivisionError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"the configuration of {type(hf).__name__} must be able to hold {place.heads - count} heads, got: {said}. {FIX}") from None
    shapes = {name: x.shape for name, x in example.named_parameters()}
    for name, x in hf.named_parameters():
        left = list(x.shape)
        if name in removed:
            left[removed[name].axis] -= len(removed[name].indices)
        if name not in shapes or list(shapes[name]) != left:
            built = list(shapes[name]) if name in shapes else "none"
            raise ModelError(
                f"the configuration of {type(hf).__name__} must be able to hold {place.heads - count} heads of the same width, "
                f"got {name} of {built} where {left} are left. {FIX}"
            )
    return PrunePlan(removed, settings, example)


def _settings(config: Any, place: Place, count: int) -> dict[str, tuple[int | None, int]]:
    """What the configuration has to say, old and new."""
    size = place.heads // place.key_heads
    found: dict[str, tuple[int | None, int]] = {"num_attention_heads": (place.heads, place.heads - count)}
    if getattr(config, "num_key_value_heads", None) is not None:
        found["num_key_value_heads"] = (
            config.num_key_value_heads,
            (place.heads - count) // size if config.num_key_value_heads != place.heads else place.heads - count,
        )
    if hasattr(config, "head_dim") and isinstance(config.hidden_size, int):
        width = config.head_dim if config.head_dim is not None else config.hidden_size // place.heads
        found["head_dim"] = (config.head_dim, width)
    return found


def _built(hf: PreTrainedModel, settings: Mapping[str, tuple[int | None, int]]) -> nn.Module:
    config = copy.deepcopy(hf.config)
    _set(text_config_of(config), settings)
    with torch.device("meta"):
        return type(hf)(config)


def text_config_of(config: Any) -> Any:
    try:
        return config.get_text_config()
    except ValueError:
        return config


def _set(config: Any, settings: Mapping[str, tuple[int | None, int]]) -> None:
    config = text_config_of(config)
    for name, (_, new) in settings.items():
        setattr(config, name, new)


def _listed(heads: set[int]) -> str:
    return ", ".join(map(str, sorted(heads)))
