"""Removal of several heads together: the rows and columns that go, and the configuration of the smaller model."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from headwise.axes import Tensor
from headwise.errors import ModelError
from headwise.interventions.edits.prune import Prune
from headwise.interventions.head_parameters import HeadMap
from headwise.models.model_info import text_config
from headwise.models.parameters.head_blocks import HeadBlock
from headwise.models.runs.places import Place

FIX = "Use Ablate, which has the same effect without shrinking."
PLAIN_TYPES = (bool, int, float, str)


@dataclass(frozen=True, eq=False)
class PrunePlan:
    """What is removed when heads are pruned.

    Attributes:
        removed: by parameter, the rows or columns that are removed.
        settings: of the (text) configuration, by name: old and new value.
        example: the model that the new configuration builds, on the meta device.
        only: the module to resize, where one layer alone shrinks; None for all.
    """

    removed: Mapping[str, HeadBlock]
    settings: Mapping[str, tuple[int | None, int]]
    example: nn.Module
    only: str | None = None

    def shrink(self, parameter: str, value: Tensor) -> Tensor:
        """A parameter without the rows or columns that are removed."""
        return self.removed[parameter].without(value) if parameter in self.removed else value

    def resize(self, hf: nn.Module) -> None:
        """Set the sizes that modules and configuration store to those of the smaller model, in place."""
        built = dict(self.example.named_modules())
        for name, module in hf.named_modules():
            if self.only is not None and name != self.only and not name.startswith(f"{self.only}."):
                continue
            new = vars(built[name])
            vars(module).update({key: value for key, value in new.items() if isinstance(value, PLAIN_TYPES) and key in vars(module) and key != "training"})
            if self.only is not None and isinstance(config := getattr(module, "config", None), PretrainedConfig):
                vars(module)["config"] = copy.deepcopy(config)
                _set(vars(module)["config"], self.settings)
        if self.only is None and isinstance(hf, PreTrainedModel):
            _set(hf.config, self.settings)


def plan_pruning(head_map: HeadMap, prunes: Sequence[Prune]) -> PrunePlan:
    """The rows, columns and settings that change when these heads are pruned.

    Raises:
        ModelError: they cannot be pruned in this model; the message gives the reason and suggests Ablate.
    """
    pruned: dict[int, set[int]] = {place.index: set() for place in head_map.places}
    for prune in prunes:
        pruned[head_map.place(prune.layer, prune.head, prune.part).index].add(prune.head)
    parts = {place.part for place in head_map.places if pruned[place.index]}
    places = [place for place in head_map.places if place.part in parts]
    for place in places:
        _check_groups(place, pruned[place.index])
    counts = {place.index: len(pruned[place.index]) for place in places}
    _check_counts(places, counts)
    removed: dict[str, HeadBlock] = {}
    for place in places:
        for block in _blocks(head_map, place, pruned[place.index]):
            _check_not_shared(head_map, place, block)
            before = removed.get(block.parameter)
            removed[block.parameter] = block if before is None else HeadBlock(block.parameter, block.axis, (*before.indices, *block.indices))
    return _with_configuration(head_map, removed, places[0], counts[places[0].index])


def _check_groups(place: Place, pruned: set[int]) -> None:
    """Check that heads sharing a key head are pruned together, and that some head is left."""
    size = place.heads // place.key_heads
    for key in {head // size for head in pruned}:
        group = set(range(key * size, (key + 1) * size))
        if not group <= pruned:
            raise ModelError(
                f"Heads that share a key head must be pruned together, got {_listed(group & pruned)} of {_listed(group)} in layer {place.layer}. "
                f"Prune all of them. {FIX}"
            )
    if len(pruned) == place.heads:
        raise ModelError(f"A layer must keep at least one head, got all {place.heads} of layer {place.layer} pruned. {FIX}")


def _check_counts(places: Sequence[Place], counts: Mapping[int, int]) -> None:
    if len(set(counts.values())) > 1:
        most = max(counts.values())
        short = [f"{count} in layer {place.layer}" for place in places if (count := counts[place.index]) < most]
        raise ModelError(
            f"The same number of heads must be pruned in every layer, since a configuration has one number of heads; got {most} in some and "
            f"{', '.join(short[:3])}{f' and {len(short) - 3} more' if len(short) > 3 else ''}. {FIX}"
        )


def _blocks(head_map: HeadMap, place: Place, pruned: set[int]) -> list[HeadBlock]:
    found = [head_map.w_o(place, head) for head in sorted(pruned)]
    size = place.heads // place.key_heads
    key_heads = sorted({head // size for head in pruned})
    for name, heads in (("query", sorted(pruned)), ("key", key_heads), ("value", key_heads)):
        side = getattr(head_map.projections[place.index], name)
        if side.refusal is not None:
            raise ModelError(f"Could not find which rows belong to each head's {name} in {place.module}: {side.refusal}. {FIX}")
        if len(side.heads) not in (place.heads, place.key_heads):
            raise ModelError(f"The {name} projection of {place.module} has {len(side.heads)} heads, not as many as its configuration says. {FIX}")
        found += [block for head in heads for block in side.heads[head].blocks]
    return found


def _check_not_shared(head_map: HeadMap, place: Place, block: HeadBlock) -> None:
    others = head_map.other_users(place, block.parameter)
    if others:
        raise ModelError(f"A layer must have its own weights to be pruned, but layer {others[0].layer} uses {block.parameter} too. {FIX}")


def _with_configuration(head_map: HeadMap, removed: Mapping[str, HeadBlock], place: Place, count: int) -> PrunePlan:
    """The plan with the configuration for fewer heads, checked: it must build exactly the shapes that are left."""
    hf = head_map.hf
    if not isinstance(hf, PreTrainedModel):
        raise ModelError(f"A model must be one of transformers to be pruned, so that it has a configuration; got {type(hf).__name__}. {FIX}")
    settings = _settings(text_config(hf), place, count)
    try:
        example = _build(hf, settings)
    except (ValueError, RuntimeError, TypeError, AssertionError, ZeroDivisionError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        raise ModelError(f"The configuration of {type(hf).__name__} does not allow {place.heads - count} heads: {reason}. {FIX}") from None
    shapes = {name: x.shape for name, x in example.named_parameters()}
    for name, x in hf.named_parameters():
        left = list(x.shape)
        if name in removed:
            left[removed[name].axis] -= len(removed[name].indices)
        if name not in shapes or list(shapes[name]) != left:
            built = list(shapes[name]) if name in shapes else "none"
            raise ModelError(
                f"The configuration of {type(hf).__name__} does not allow {place.heads - count} heads of the same width: "
                f"it gives {name} the shape {built}, and {left} is left. {FIX}"
            )
    return PrunePlan(removed, settings, example)


def _settings(config: PretrainedConfig, place: Place, count: int) -> dict[str, tuple[int | None, int]]:
    """The configuration's values that change: old and new."""
    size = place.heads // place.key_heads
    found: dict[str, tuple[int | None, int]] = {"num_attention_heads": (place.heads, place.heads - count)}
    key_heads = getattr(config, "num_key_value_heads", None)
    if key_heads is not None:
        found["num_key_value_heads"] = (key_heads, (place.heads - count) // size if key_heads != place.heads else place.heads - count)
    hidden = getattr(config, "hidden_size", None)
    if hasattr(config, "head_dim") and isinstance(hidden, int):
        head_dim = getattr(config, "head_dim", None)
        found["head_dim"] = (head_dim, head_dim if head_dim is not None else hidden // place.heads)
    return found


def _build(hf: PreTrainedModel, settings: Mapping[str, tuple[int | None, int]]) -> nn.Module:
    config = copy.deepcopy(hf.config)
    _set(config, settings)
    with torch.device("meta"):
        return type(hf)(config)


def _set(config: PretrainedConfig, settings: Mapping[str, tuple[int | None, int]]) -> None:
    inner = _text_part(config)
    for name, (_, new) in settings.items():
        setattr(inner, name, new)


def _text_part(config: PretrainedConfig) -> PretrainedConfig:
    try:
        return config.get_text_config()
    except ValueError:  # it has several; the outer one counts
        return config


def _listed(heads: set[int]) -> str:
    return ", ".join(map(str, sorted(heads)))
