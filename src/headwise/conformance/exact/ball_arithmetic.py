"""Ball arithmetic: every number is an interval known to contain the true value, however the computation rounds.

Inputs are exact (floats and fractions are rational numbers), and every step widens the interval by its possible rounding
error. Disjoint intervals prove that two numbers differ. Overlapping intervals narrower than 1e-25 are called equal here,
and the reported bound is the largest difference that remains possible.

References: Johansson 2017, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic".
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock

import flint
from flint import arb, arb_mat, fmpq, fmpq_mat

from headwise.axes import Float, Tensor
from headwise.conformance.exact.move_verdict import Residual
from headwise.errors import Undecided

BITS = 128
NARROW = 1e-25
_PRECISION_LOCK = RLock()


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """Set the precision of flint inside the block. The setting is global to flint, so threads take turns."""
    with _PRECISION_LOCK, flint.ctx.workprec(bits):
        yield


def exact(numbers: Float[Tensor, "rows columns"] | Sequence[Sequence[float]]) -> fmpq_mat:
    """Return a matrix of the exact rational values of these floats.

    Example:
        >>> exact([[0.5, -0.75]])
        [1/2, -3/4]
    """
    rows = numbers.tolist() if isinstance(numbers, Tensor) else numbers
    return fmpq_mat(len(rows), len(rows[0]) if rows else 0, [fmpq(*float(number).as_integer_ratio()) for row in rows for number in row])


def enclose(numbers: fmpq_mat | Float[Tensor, "rows columns"]) -> arb_mat:
    """Return a matrix of balls around these numbers: radius 0 for floats, one rounding error for other rationals."""
    if isinstance(numbers, Tensor):
        return arb_mat(numbers.shape[0], numbers.shape[1], numbers.double().flatten().tolist())
    return arb_mat(numbers)


def dot(a: Sequence[arb], b: Sequence[arb]) -> arb:
    """Σ a_i · b_i."""
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def softmax(scores: Sequence[arb | None], sink: arb | None = None) -> list[arb]:
    """Softmax of one row; None is a hidden key, with weight 0. All weights are 0 if no key is visible.

    Balls have unbounded exponents, so the maximum need not be subtracted first.

    Example:
        >>> [weight.str(5, radius=False) for weight in softmax([arb(3), None, arb(3)])]
        ['0.50000', '0', '0.50000']
    """
    mass = [arb(0) if score is None else score.exp() for score in scores]
    total = sum(mass, arb(0) if sink is None else sink.exp())
    return mass if total.is_zero() else [part / total for part in mass]


def row(matrix: arb_mat, index: int) -> list[arb]:
    """Return one row as a list."""
    return [matrix[index, column] for column in range(matrix.ncols())]


def matrix(rows: Sequence[Sequence[arb]]) -> arb_mat:
    """Stack rows into a matrix."""
    return arb_mat([list(numbers) for numbers in rows])


def side_by_side(parts: Sequence[arb_mat]) -> arb_mat:
    """Concatenate matrices with equally many rows along their columns."""
    return matrix([[number for part in parts for number in row(part, index)] for index in range(parts[0].nrows())])


def floats(numbers: arb_mat | fmpq_mat) -> list[list[float]]:
    """Return the midpoints as floats, for display."""
    return [[float(arb(number).mid()) for number in line] for line in numbers.tolist()]


def widest(numbers: arb_mat) -> float:
    """Return the largest radius, rounded up."""
    return max((_up(number.rad()) for number in numbers.entries()), default=0.0)


def equal(what: str, one: arb_mat, other: arb_mat) -> Residual:
    """Prove that two matrices are equal, or that they are not.

    Raises:
        Undecided: the intervals overlap but are too wide to decide.
    """
    shapes = [(m.nrows(), m.ncols()) for m in (one, other)]
    if shapes[0] != shapes[1]:
        return Residual(f"{what}: shapes {shapes[0]} and {shapes[1]}", False, "≥", math.inf)
    differences = [x - y for x, y in zip(one.entries(), other.entries(), strict=True)]
    distance = max((_down(difference.abs_lower()) for difference in differences), default=0.0)
    if any(not difference.contains(0) for difference in differences):
        return Residual(what, False, "≥", distance)
    width = max(widest(one), widest(other))
    if not width < NARROW:
        raise Undecided(f"{what} must be known to within {NARROW:g} to be compared, got {width:.1g} at {flint.ctx.prec} bits. Use more bits.")
    return Residual(what, True, "≤", max((_up(difference.abs_upper()) for difference in differences), default=0.0))


def differ(what: str, one: arb_mat, other: arb_mat) -> Residual:
    """Prove that two matrices differ somewhere, or that they are equal.

    Raises:
        Undecided: as `equal`.
    """
    found = equal(what, one, other)
    return replace(found, holds=not found.holds)


def _up(number: arb) -> float:
    return math.nextafter(float(number.upper()), math.inf) if not number.is_zero() else 0.0


def _down(number: arb) -> float:
    return max(math.nextafter(float(number.lower()), -math.inf), 0.0)
