"""What changed in each head of one layer, in numbers."""

from dataclasses import dataclass

import torch

from headwise.analysis.checkpoints.circuits import Layer, likeness, products, spread
from headwise.axes import Float, Int, Tensor

FEW = 3  # heads without which a median says nothing: their numbers stand as they are
FAINT = 0.02  # of the median head: what is smaller before and after has no changes worth a verdict


@dataclass(frozen=True, eq=False)
class Changes:
    """By head; NaN where a number is not known.

    Attributes:
        gain: size of OV, tuned over base, over the layer's median head's.
        ov: cosine of OV, tuned with base.
        qk: cosine of QK.
        size: size of QK, tuned over base, over the layer's median head's; after the norm, where queries and keys are normalised.
        twin: the head of the base that all its slices became, or -1.
        alike: how alike they are to it.
        faint: its OV, and its QK, is next to nothing before and after.
    """

    gain: Float[Tensor, " H"]
    ov: Float[Tensor, " H"]
    qk: Float[Tensor, " H"]
    size: Float[Tensor, " H"]
    twin: Int[Tensor, " H"]
    alike: Float[Tensor, " H"]
    faint_ov: Tensor
    faint_qk: Tensor


def changes(base: Layer, tuned: Layer, heads: int, tied: float) -> Changes:
    """Compare one layer's heads.

    Args:
        tied: from which cosine on slices count as another head's.
    """
    twin, alike = _twins(base, tuned, heads, tied)
    gain, ov, faint_ov = _circuit(base.value, base.output, tuned.value, tuned.output, heads)
    if base.value is None or tuned.value is None:
        gain, faint_ov = _sizes(base.output, tuned.output, heads)
    size, qk, faint_qk = _circuit_qk(base, tuned, heads)
    if (base.normalised or tuned.normalised) and base.sizes is not None and tuned.sizes is not None:
        size = tuned.sizes / base.sizes
    return Changes(_relative(gain, twin), ov, qk, _relative(size, twin), twin, alike, faint_ov, faint_qk)


def _circuit_qk(base: Layer, tuned: Layer, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Size, cosine and faintness of QK: query rows by head, key rows by key head."""
    if base.query is None or base.key is None or tuned.query is None or tuned.key is None:
        return _unknown(heads)
    a, b, c, d = base.query, spread(base.key, heads), tuned.query, spread(tuned.key, heads)
    return _compared(products(a, b, a, b), products(c, d, c, d), products(a, b, c, d))


def _circuit(value: Tensor | None, output: Tensor | None, other_value: Tensor | None, other_output: Tensor | None, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    if value is None or output is None or other_value is None or other_output is None:
        return _unknown(heads)
    a, b, c, d = spread(value, heads), output, spread(other_value, heads), other_output
    return _compared(products(a, b, a, b), products(c, d, c, d), products(a, b, c, d))


def _compared(before: Tensor, after: Tensor, between: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    before, after = before.clamp(min=0).sqrt(), after.clamp(min=0).sqrt()
    floor = FAINT * before.median()
    return after / before, between / (before * after), (before <= floor) & (after <= floor)


def _sizes(output: Tensor | None, other: Tensor | None, heads: int) -> tuple[Tensor, Tensor]:
    """Where values are not known: W_O alone."""
    if output is None or other is None:
        return torch.full((heads,), torch.nan, dtype=torch.float64), torch.zeros(heads, dtype=torch.bool)
    before, after = output.flatten(1).norm(dim=1), other.flatten(1).norm(dim=1)
    return after / before, (before <= FAINT * before.median()) & (after <= FAINT * before.median())


def _relative(ratio: Tensor, twin: Tensor) -> Float[Tensor, " H"]:
    """Over the layer's median head; heads that became another are left out of it."""
    own = ratio[(twin < 0) & ratio.isfinite() & (ratio > 0)].sort().values
    if len(own) < FEW:
        return ratio
    middle = own[[(len(own) - 1) // 2, len(own) // 2]]
    return ratio / middle[middle.log().abs().argmin()]  # a head, not a mean of two: where half of a layer changed, the other half is the yardstick


def _twins(base: Layer, tuned: Layer, heads: int, tied: float) -> tuple[Tensor, Tensor]:
    """Which head of the base each head became, by the least alike of its slices; -1 where it stayed nearer to itself."""
    sides = [(base.query, tuned.query), (base.key, tuned.key), (base.value, tuned.value)]
    alike = torch.ones(heads, heads, dtype=torch.float64)
    for before, after in sides:
        if before is None or after is None:
            return torch.full((heads,), -1), torch.full((heads,), torch.nan, dtype=torch.float64)
        found = likeness(after, before)
        step = heads // found.shape[0]
        alike = torch.minimum(alike, found.repeat_interleave(step, 0).repeat_interleave(step, 1))
    own = alike.diagonal().clone()
    best, twin = alike.fill_diagonal_(-1).max(1) if heads > 1 else (torch.full((1,), -1.0).double(), torch.zeros(1, dtype=torch.int64))
    became = (best >= tied) & (best > own + (1 - tied) / 2)
    return torch.where(became, twin, -1), best


def _unknown(heads: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.full((heads,), torch.nan, dtype=torch.float64), torch.full((heads,), torch.nan, dtype=torch.float64), torch.zeros(heads, dtype=torch.bool)
