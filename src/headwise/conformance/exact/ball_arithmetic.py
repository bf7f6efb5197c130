"""Ball arithmetic: every number is an interval that is known to hold the true value, however the computation rounds.

Numbers come in exactly (floats and fractions are rationals) and every step widens the interval by what it may have lost.
Intervals that don't meet are numbers that differ: a proof. Intervals that meet and are narrower than 1e-25 leave no room
for another difference: that is what is called equal here, and the bound says how much room is left.

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
_ONE_AT_A_TIME = RLock()


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """Work with so many bits inside. They are one number for all of flint, so threads wait for each other."""
    with _ONE_AT_A_TIME, flint.ctx.workprec(bits):
        yield


def exact(numbers: Float[Tensor, "rows columns"] | Sequence[Sequence[float]]) -> fmpq_mat:
    """A matrix of the rationals that these floats are.

    Example:
        >>> exact([[0.5, -0.75]])
        [1/2, -3/4]
    """
    rows = numbers.tolist() if isinstance(numbers, Tensor) else numbers
    return fmpq_mat(len(rows), len(rows[0]) if rows else 0, [fmpq(*float(number).as_integer_ratio()) for row in rows for number in row])


def enclose(numbers: fmpq_mat | Float[Tensor, "rows columns"]) -> arb_mat:
    """A matrix of balls around these numbers: of radius 0 around floats, one rounding wide around other rationals."""
    if isinstance(numbers, Tensor):
        return arb_mat(numbers.shape[0], numbers.shape[1], numbers.double().flatten().tolist())
    return arb_mat(numbers)


def dot(a: Sequence[arb], b: Sequence[arb]) -> arb:
    """Σ a_i · b_i."""
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def softmax(scores: Sequence[arb | None], sink: arb | None = None) -> list[arb]:
    """e^s / Σ e^s of a row; None is a hidden key, of weight 0. All 0 where there is nothing to see.

    Balls have room for any exponent, so that nothing needs to be subtracted first.

    Example:
        >>> [weight.str(5, radius=False) for weight in softmax([arb(3), None, arb(3)])]
        ['0.50000', '0', '0.50000']
    """
    mass = [arb(0) if score is None else score.exp() for score in scores]
    total = sum(mass, arb(0) if sink is None else sink.exp())
    return mass if total.is_zero() else [part / total for part in mass]


def row(matrix: arb_mat, index: int) -> list[arb]:
    """One row as a list."""
    return [matrix[index, column] for column in range(matrix.ncols())]


def matrix(rows: Sequence[Sequence[arb]]) -> arb_mat:
    """Rows as one matrix."""
    return arb_mat([list(numbers) for numbers in rows])


def side_by_side(parts: Sequence[arb_mat]) -> arb_mat:
    """Matrices of equal height as one."""
    return matrix([[number for part in parts for number in row(part, index)] for index in range(parts[0].nrows())])


def floats(numbers: arb_mat | fmpq_mat) -> list[list[float]]:
    """The nearest floats, to be shown."""
    return [[float(arb(number).mid()) for number in line] for line in numbers.tolist()]


def widest(numbers: arb_mat) -> float:
    """The largest radius, rounded up."""
    return max((_up(number.rad()) for number in numbers.entries()), default=0.0)


def equal(what: str, one: arb_mat, other: arb_mat) -> Residual:
    """Two matrices are the same, or they are not: proved either way.

    Raises:
        Undecided: the intervals meet, but are too wide to say more.
    """
    shapes = [(m.nrows(), m.ncols()) for m in (one, other)]
    if shapes[0] != shapes[1]:
        return Residual(f"{what}: shapes {shapes[0]} and {shapes[1]}", False, "≥", math.inf)
    gaps = [x - y for x, y in zip(one.entries(), other.entries(), strict=True)]
    apart = max((_down(gap.abs_lower()) for gap in gaps), default=0.0)
    if any(not gap.contains(0) for gap in gaps):
        return Residual(what, False, "≥", apart)
    width = max(widest(one), widest(other))
    if not width < NARROW:
        raise Undecided(f"{what} must be known to within {NARROW:g} to be judged, got {width:.1g} at {flint.ctx.prec} bits. Take more bits.")
    return Residual(what, True, "≤", max((_up(gap.abs_upper()) for gap in gaps), default=0.0))


def differ(what: str, one: arb_mat, other: arb_mat) -> Residual:
    """Two matrices are not the same somewhere, or they are: proved either way.

    Raises:
        Undecided: as `equal`.
    """
    found = equal(what, one, other)
    return replace(found, holds=not found.holds)


def _up(number: arb) -> float:
    return math.nextafter(float(number.upper()), math.inf) if not number.is_zero() else 0.0


def _down(number: arb) -> float:
    return max(math.nextafter(float(number.lower()), -math.inf), 0.0)
