"""Choosing on one half of the texts and measuring on the other, so that what is chosen for being the largest is not flattered."""

import torch

from headwise.axes import Float, Int, Tensor


def split_halves(texts: int, seed: int) -> tuple[Int[Tensor, " n"], Int[Tensor, " m"]]:
    """Numbers of the texts to choose on, and of those to measure on.

    Example:
        >>> chosen, measured = split_halves(5, 0)
        >>> len(chosen), len(measured), sorted([*chosen.tolist(), *measured.tolist()])
        (3, 2, [0, 1, 2, 3, 4])
    """
    order = torch.randperm(texts, generator=torch.Generator().manual_seed(seed))
    return order[::2], order[1::2]


def weighted_mean(sums: Float[Tensor, "n *shape"], counts: Float[Tensor, " n"]) -> Float[Tensor, "*shape"]:
    """Σ sums / Σ counts over texts.

    Example:
        >>> weighted_mean(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0])).tolist()
        [2.0]
    """
    return sums.sum(0) / counts.sum()
