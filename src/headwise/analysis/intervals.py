"""Bootstrap intervals of means over texts: texts are drawn, not single answers, as answers about one text go together.

References: Efron and Tibshirani 1993, chapter 13: the percentile interval; Field and Welsh 2007: drawing whole clusters.
"""

from dataclasses import dataclass

import torch

from headwise.axes import Float, Tensor

DRAWS = 1000
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Interval:
    """A mean, and where it would lie with other texts of the kind."""

    mean: Float[Tensor, "*shape"]
    low: Float[Tensor, "*shape"]
    high: Float[Tensor, "*shape"]
    spread: Float[Tensor, "*shape"]


def bootstrap(sums: Float[Tensor, "n *shape"], counts: Float[Tensor, " n"], seed: int = 0, draws: int = DRAWS, level: float = LEVEL) -> Interval:
    """Σ sums / Σ counts over texts, with its interval.

    Args:
        sums: of the answers about each text.
        counts: how many answers that are.
        level: the share of drawn means that lie inside.

    Example:
        >>> found = bootstrap(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([2.0, 2.0, 2.0]))
        >>> float(found.mean), float(found.low), float(found.high)
        (0.5, 0.5, 0.5)
    """
    n = len(counts)
    chosen = torch.randint(n, (draws, n), generator=torch.Generator().manual_seed(seed))
    times = torch.zeros(draws, n, dtype=torch.float64).scatter_add_(1, chosen, torch.ones(draws, n, dtype=torch.float64))
    flat, weight = sums.double().reshape(n, -1), counts.double()
    means = (times @ flat) / (times @ weight)[:, None].clamp(min=1e-300)
    ends = torch.quantile(means, torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64), dim=0)
    shape = sums.shape[1:]
    mean = flat.sum(0) / weight.sum().clamp(min=1e-300)
    return Interval(*(x.reshape(shape) for x in (mean, ends[0], ends[1], means.std(0))))
