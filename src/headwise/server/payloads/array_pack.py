"""One binary format for every array that the page reads: `HWB1`, the length of a JSON header, the header, the arrays."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

MAGIC = b"HWB1"
KINDS = ("float32", "float16", "uint8", "int32")
ALIGN = 8  # bytes: typed arrays must begin at a multiple of their item's size


def pack(arrays: Mapping[str, Any], header: Mapping[str, Any]) -> bytes:
    """Arrays and what is to be known of them as one run of bytes.

    Example:
        >>> packed = pack({"a": np.float32([[1, 2]])}, {"part": "self"})
        >>> found = unpack(packed)
        >>> found["part"], found["arrays"]["a"].tolist()
        ('self', [[1.0, 2.0]])
    """
    little = {name: np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}
    for name, array in little.items():
        if array.dtype.name not in KINDS:
            raise TypeError(f"{name} must be one of {', '.join(KINDS)}, got {array.dtype.name}.")
    start = _up(8 + len(_header(little, header, [10**11] * len(little))))
    places, at = [], start
    for array in little.values():
        places.append(at)
        at = _up(at + array.nbytes)
    words = _header(little, header, places).ljust(start - 8)
    parts = [MAGIC, struct.pack("<I", len(words)), words]
    for array in little.values():
        parts += [array.tobytes(), bytes(_up(array.nbytes) - array.nbytes)]
    return b"".join(parts)


def unpack(data: bytes) -> dict[str, Any]:
    """The header, its `arrays` as numpy has them: what the page does in JavaScript."""
    if data[:4] != MAGIC:
        raise ValueError(f"data must begin with {MAGIC!r}, got {data[:4]!r}.")
    (length,) = struct.unpack("<I", data[4:8])
    header = json.loads(data[8 : 8 + length])
    header["arrays"] = {name: _array(data, one) for name, one in header["arrays"].items()}
    return header


def _header(arrays: Mapping[str, Any], header: Mapping[str, Any], places: list[int]) -> bytes:
    listed = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape), "offset": place} for (name, array), place in zip(arrays.items(), places, strict=True)
    }
    return json.dumps({**header, "arrays": listed}).encode()


def _array(data: bytes, one: Mapping[str, Any]) -> Any:
    count = int(np.prod(one["shape"], dtype=np.int64))
    return np.frombuffer(data, np.dtype(one["dtype"]).newbyteorder("<"), count, one["offset"]).reshape(one["shape"])


def _up(length: int) -> int:
    return -(-length // ALIGN) * ALIGN
