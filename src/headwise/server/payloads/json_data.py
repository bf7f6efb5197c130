"""Data as JSON can hold it."""

import math
from collections.abc import Mapping
from typing import Any

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def to_json(data: object) -> Json:
    """Plain data with NaN and infinity, which JSON lacks, replaced by null.

    Args:
        data: numbers, strings, lists, tuples and mappings, nested at will.

    Example:
        >>> to_json({"a": (1.0, float("nan"))})
        {'a': [1.0, None]}
    """
    if data is None or isinstance(data, bool | int | str):
        return data
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): to_json(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_json(value) for value in data]
    raise TypeError(f"Only plain data can be sent as JSON, got {type(data).__name__}.")
