"""Arrays for the page in one binary response: safetensors, whose metadata has a JSON header."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

DTYPES = ("float32", "float16", "uint8", "int32")  # those that the page reads


def to_safetensors(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> bytes:
    """Serialize arrays and a JSON header as safetensors.

    Raises:
        TypeError: an array has a dtype that the page does not read.

    Example:
        >>> data = to_safetensors({"a": np.float32([[1, 2]])}, {"part": "self"})
        >>> found = from_safetensors(data)
        >>> found["part"], found["arrays"]["a"].tolist()
        ('self', [[1.0, 2.0]])
    """
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"{name} must be one of {', '.join(DTYPES)}, got {array.dtype.name}.")
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {"header": json.dumps(header)})


def from_safetensors(data: bytes) -> dict[str, Any]:
    """The header, with its `arrays` as numpy arrays: what the page does in JavaScript.

    Raises:
        ValueError: the data is not of this format.
    """
    try:
        arrays = load(data)
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["header"])
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"This is not a response of headwise in safetensors: {error}") from None
    return {**header, "arrays": arrays}
