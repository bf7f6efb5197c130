"""Formatting of numbers in the sentences of cards."""

from collections.abc import Callable

from headwise.experiments.card import Number


def percent(share: float) -> str:
    """A share in per cent, with enough digits to distinguish it from 0 % and 100 %.

    Example:
        >>> percent(0.1234), percent(0.9996), percent(0.00002), percent(1.0), percent(0.0)
        ('12 %', '99.96 %', '0.002 %', '100 %', '0 %')
    """
    whole = 100 * share
    if 99 < whole < 100:
        return f"{whole:.2f} %" if whole < 99.995 else "over 99.99 %"
    return f"{whole:.0f} %" if abs(whole) >= 9.95 or whole == 0 else f"{float(f'{whole:.2g}'):g} %" if abs(whole) >= 1e-4 else f"{whole:.1e} %"


def times(factor: float) -> str:
    """A factor in words.

    Example:
        >>> times(2.074), times(31.2)
        ('2.1 times', '31 times')
    """
    return f"{factor:.1f} times" if factor < 10 else f"{factor:.0f} times"


def nats(value: float) -> str:
    """A loss, or a change of one.

    Example:
        >>> nats(0.01234), nats(3.456), nats(-0.5)
        ('0.012', '3.46', '-0.5')
    """
    return f"{float(f'{value:.2g}'):g}" if abs(value) < 1 else f"{value:.2f}"


def between(number: Number, form: Callable[[float], str]) -> str:
    """The interval of a number with each end formatted by `form`; the number itself if it is exact.

    Example:
        >>> between(Number(0.5, low=0.4, high=0.6), percent), between(Number(0.5), percent)
        ('40 % to 60 %', '50 %')
    """
    return form(number.value) if number.low is None or number.high is None else f"{form(number.low)} to {form(number.high)}"
