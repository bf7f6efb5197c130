"""Copies of a model in which known heads were changed by hand, and everything else a little."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.interventions.head_parameters import HeadMap
from headwise.models.parameters.head_blocks import HeadBlock


@dataclass(frozen=True)
class Planted:
    """The numbers of a copy by name, and what was done to which head."""

    tensors: dict[str, Tensor]
    truth: dict[tuple[int, int], str]


def plant(hf: nn.Module, head_map: HeadMap, truth: dict[tuple[int, int], str], noise: float = 0.01, seed: int = 0) -> Planted:
    """Noise of this size, of each tensor's own spread, everywhere; then the changes, written with plain slices of the parameters."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, x in hf.named_parameters():
        spread = x.detach().double().std(correction=0).float()
        tensors[name] = x.detach().float() + noise * spread * torch.randn(x.shape, generator=generator)
    places = next(iter(head_map.parts.values()))
    for (layer, head), what in truth.items():
        sides, place = head_map.projections[places[layer].index], places[layer]
        if what in ("muted", "amplified"):
            _times(tensors, [head_map.w_o(place, head)], 0.4 if what == "muted" else 1.6)
        elif what in ("tempered", "sharpened"):
            _times(tensors, sides.query.heads[head].blocks, 0.5 if what == "tempered" else 1.8)
        elif what == "rewired":
            _redrawn(tensors, sides.query.heads[head].weights, generator)
        elif what == "tied":  # to one that reads the same key head, which must stay for the others of its group
            other = (head + 1) % place.heads
            _copied(tensors, sides.query.heads[other].blocks, sides.query.heads[head].blocks)
        elif what == "tied alone":
            other = (head + 1) % place.heads
            for side in (sides.query, sides.key, sides.value):
                _copied(tensors, side.heads[other].blocks, side.heads[head].blocks)
    return Planted(tensors, {place: "tied" if what == "tied alone" else what for place, what in truth.items()})


def loaded(hf: nn.Module, planted: Planted) -> nn.Module:
    """The copy as a model."""
    import copy

    other = copy.deepcopy(hf)
    with torch.no_grad():
        for name, x in other.named_parameters():
            x.copy_(planted.tensors[name])
    return other


def named(dataset) -> dict[tuple[int, int], str]:
    """The verdicts that are not "unchanged"."""
    words = dataset["verdict"].values
    return {(i, j): str(words[i, j]) for i in range(words.shape[0]) for j in range(words.shape[1]) if words[i, j] != "unchanged"}


def _each(tensors: dict[str, Tensor], blocks, change: Callable[[HeadBlock, Tensor], Tensor]) -> None:
    for block in blocks:
        tensors[block.parameter] = block.put(tensors[block.parameter], change(block, block.of(tensors[block.parameter])))


def _times(tensors, blocks, factor: float) -> None:
    _each(tensors, blocks, lambda block, part: part * factor)


def _redrawn(tensors, blocks, generator) -> None:
    def drawn(block: HeadBlock, part: Tensor) -> Tensor:
        new = torch.randn(part.shape, generator=generator)
        return new * part.norm() / new.norm()

    _each(tensors, blocks, drawn)


def _copied(tensors, sources, targets) -> None:
    for source, target in zip(sources, targets, strict=True):
        tensors[target.parameter] = target.put(tensors[target.parameter], source.of(tensors[source.parameter]))
