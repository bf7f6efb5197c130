"""The weights in a CTranslate2 `model.bin`.

The file, little-endian: version; the specification's name and revision; a count, then for each variable its name, rank,
shape, dtype, size in bytes and bytes. A text is its length in 2 bytes, then its bytes with a closing zero.

References: CTranslate2, `python/ctranslate2/specs/model_spec.py`, binary version 6.
"""

import struct
from pathlib import Path

import numpy as np

from headwise.errors import CheckpointError

DTYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)


def variables(path: Path) -> dict[str, np.ndarray]:
    """Every variable by name, as stored.

    Raises:
        CheckpointError: the file is of another kind, or cut short.
    """
    try:
        return _Reader(path.read_bytes()).variables()
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path.name} must be a whole CTranslate2 model, got {type(error).__name__}: {error}. Install its package again.") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def variables(self) -> dict[str, np.ndarray]:
        version = self.number("I")
        if version < 4:
            raise ValueError(f"binary version {version}")
        self.text()
        self.number("I")
        return dict(self.variable() for _ in range(self.number("I")))

    def variable(self) -> tuple[str, np.ndarray]:
        name = self.text()
        shape = [self.number("I") for _ in range(self.number("B"))]
        dtype, size = DTYPES[self.number("B")], self.number("I")
        array = np.frombuffer(self.data, dtype, size // np.dtype(dtype).itemsize, self.at).reshape(shape)
        self.at += size
        return name, array

    def text(self) -> str:
        length = self.number("H")
        found = self.data[self.at : self.at + length].rstrip(b"\0").decode()
        self.at += length
        return found

    def number(self, kind: str) -> int:
        found = struct.unpack_from(f"<{kind}", self.data, self.at)[0]
        self.at += struct.calcsize(f"<{kind}")
        return found
