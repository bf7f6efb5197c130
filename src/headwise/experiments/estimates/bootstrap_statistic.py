"""Numbers that are no mean over texts, such as the median head's cost: with the interval that drawing texts again gives them."""

from collections.abc import Callable

import torch

from headwise.analysis.intervals import DRAWS, LEVEL
from headwise.axes import Float, Tensor
from headwise.experiments.card import Number

Statistic = Callable[[Float[Tensor, "d *shape"]], Float[Tensor, " d"]]  # of means over texts, d times


def bootstrap_statistic(
    values: Float[Tensor, "n *shape"],
    counts: Float[Tensor, " n"],
    statistic: Statistic,
    *,
    seed: int = 0,
    draws: int = DRAWS,
    means: str = "",
    unit: str = "",
    published: str | None = None,
) -> Number:
    """A statistic of the means over texts, and where it would lie with other texts of the kind.

    Args:
        values: of each text.
        counts: what each is a mean over: its weight.
        statistic: from means over d draws of texts to d numbers.
        means: what the number is, in words.

    Example:
        >>> costs = torch.tensor([[1.0, 5.0, 2.0], [3.0, 5.0, 2.0]])  # of two texts, by head
        >>> found = bootstrap_statistic(costs, torch.ones(2), lambda mean: mean.median(-1).values)
        >>> found.value, found.low, found.high
        (2.0, 2.0, 3.0)
    """
    n = len(counts)
    chosen = torch.randint(n, (draws, n), generator=torch.Generator().manual_seed(seed))
    times = torch.zeros(draws, n, dtype=torch.float64).scatter_add_(1, chosen, torch.ones(draws, n, dtype=torch.float64))
    found = statistic(_means(times, values, counts))
    known = found[found.isfinite()].double()
    low, high = torch.quantile(known, torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)).tolist() if n > 1 and len(known) else (None, None)
    value = float(statistic(_means(torch.ones(1, n, dtype=torch.float64), values, counts))[0])
    return Number(value, means, low, high, unit, published)


def _means(times: Float[Tensor, "d n"], values: Float[Tensor, "n *shape"], counts: Float[Tensor, " n"]) -> Float[Tensor, "d *shape"]:
    """The mean over texts of each draw, in which each text comes so many times."""
    weights = times * counts.double()
    flat = weights @ values.double().reshape(len(counts), -1)
    return (flat / weights.sum(1, keepdim=True)).reshape(len(times), *values.shape[1:])
