"""Snapshots of a key/value cache, so that a module may run twice in one pass and the cache takes in its tokens once."""

from collections.abc import Iterable
from typing import Any

from transformers.cache_utils import Cache, CacheLayerMixin

Snapshot = list[tuple[Any, dict[str, Any]]]


def take_snapshot(values: Iterable[Any]) -> Snapshot:
    """The state of every cache among these values.

    Layers replace their tensors when they take in keys, so that references to the tensors are enough.

    Example:
        >>> import torch
        >>> from transformers import DynamicCache
        >>> cache = DynamicCache()
        >>> before = take_snapshot([cache])
        >>> _ = cache.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
        >>> restore_snapshot(before)
        >>> cache.get_seq_length()
        0
    """
    found: Snapshot = []
    waiting = [x for x in values if isinstance(x, Cache)]
    while waiting:
        state = waiting.pop()
        held = {name: list(x) if isinstance(x, list) else dict(x) if isinstance(x, dict) else x for name, x in vars(state).items()}
        found.append((state, held))
        for x in held.values():
            waiting += [part for part in (x if isinstance(x, list) else [x]) if isinstance(part, Cache | CacheLayerMixin)]
    return found


def restore_snapshot(snapshot: Snapshot) -> None:
    """Put the caches back into the state that they had."""
    for state, held in snapshot:
        vars(state).clear()
        vars(state).update(held)
