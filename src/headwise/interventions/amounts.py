"""The amounts of edits, checked."""

import math
from typing import Any

from headwise.errors import ArgumentError, ArgumentTypeError


def finite(name: str, number: Any) -> None:
    """Whether an amount is a finite number.

    Raises:
        ArgumentError, ArgumentTypeError: it is not.
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ArgumentTypeError(f"{name} must be a number, got {type(number).__name__}. Pass 1.5, say.")
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a finite number, got {number}. Pass 1.5, say.")
