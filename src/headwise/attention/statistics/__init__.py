"""One file for each statistic: its definition on the weights, and how it is accumulated without them."""

from collections.abc import Mapping

from headwise.attention.statistic import Statistic
from headwise.catalog import entries


def statistics() -> Mapping[str, Statistic]:
    """Every statistic by name, with its `statement`, `formula` and `unit`.

    Example:
        >>> statistics()["entropy"].unit
        'nats'
    """
    return entries(__name__)
