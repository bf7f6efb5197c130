"""One file a statistic: its definition on the weights, and how it is gathered without them."""

from collections.abc import Mapping

from headwise.attention.statistic import Statistic
from headwise.catalog import entries


def statistics() -> Mapping[str, Statistic]:
    """Every statistic by name: what it tells (`statement`), its `formula` and its `unit`.

    Example:
        >>> statistics()["entropy"].unit
        'nats'
    """
    return entries(__name__)
