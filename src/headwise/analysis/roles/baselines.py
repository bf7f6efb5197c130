"""What simpler rules would score: looking everywhere alike, or always so many units away."""

from collections.abc import Iterable

import torch

from headwise.axes import Bool, Float, Int, Tensor

AWAY = 8  # units: offsets from -8 to 8


def uniform(right: Bool[Tensor, "n S"], among: Bool[Tensor, "n S"]) -> Float[Tensor, " n"]:
    """What a head scores that gives every unit the same weight: the share of right ones.

    Example:
        >>> uniform(torch.tensor([[True, False]]), torch.tensor([[True, True]])).tolist()
        [0.5]
    """
    return (right & among).sum(1) / among.sum(1).clamp(min=1)


def offsets(query: Int[Tensor, " n"], right: Bool[Tensor, "n S"], away: Iterable[int] = range(-AWAY, AWAY + 1)) -> dict[str, Float[Tensor, " n"]]:
    """What a head scores that always looks so many units away, for each offset that is ever right.

    Example:
        >>> found = offsets(torch.tensor([1, 2]), torch.tensor([[True, False, False], [True, False, False]]))
        >>> {name: x.tolist() for name, x in found.items()}
        {'offset -2': [0.0, 1.0], 'offset -1': [1.0, 0.0]}
    """
    steps = torch.tensor(list(away))
    there = query[:, None] + steps
    inside = (there >= 0) & (there < right.shape[1])
    hit = right.gather(1, there.clamp(0, right.shape[1] - 1)) & inside
    return {f"offset {int(steps[i]):+d}": hit[:, i].float() for i in hit.any(0).nonzero()[:, 0].tolist()}


def visible(query: Int[Tensor, " n"], units: int, ahead: bool) -> Bool[Tensor, "n S"]:
    """The units that each query can see: all, or those up to itself."""
    if ahead:
        return torch.ones(len(query), units, dtype=torch.bool)
    return torch.arange(units) <= query[:, None]
