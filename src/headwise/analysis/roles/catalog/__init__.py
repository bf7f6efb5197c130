"""Roles, one file each: what a head may do, who described it, and what simpler rule it must beat."""

from collections.abc import Mapping

from headwise.analysis.roles.role import Role
from headwise.catalog import entries


def roles() -> Mapping[str, Role]:
    """Every role by name.

    Example:
        >>> list(roles())[:3]
        ['alignment', 'coreference', 'duplicate_token']
    """
    return entries("headwise.analysis.roles.catalog")
