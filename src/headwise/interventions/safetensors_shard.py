"""A safetensors file, read and written tensor by tensor: what is not replaced keeps its bytes, its place and its order.

8 bytes: N, the length of the header    N bytes: JSON of name → dtype, shape, offsets    the tensors' bytes
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from headwise.axes import Tensor

CHUNK = 1 << 22
ALIGNED = 8  # safetensors pads its header to this


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: where its bytes are."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Shard:
    """A file's header.

    Attributes:
        data: where the tensors' bytes begin.
    """

    path: Path
    tensors: tuple[Stored, ...]
    metadata: Any
    data: int


def shard_of(path: Path) -> Shard:
    """Read a file's header."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", None)
    tensors = [Stored(name, x["dtype"], tuple(x["shape"]), *x["data_offsets"]) for name, x in header.items()]
    return Shard(path, tuple(sorted(tensors, key=lambda stored: stored.start)), metadata, 8 + length)


def write_shard(shard: Shard, replaced: Mapping[str, Tensor], file: BinaryIO) -> dict[str, tuple[str, str]]:
    """Write the file again, with some tensors replaced by others of the same dtype.

    Returns:
        The SHA-256 of each tensor's bytes before and after.
    """
    file.write(_header(shard, replaced))
    hashes: dict[str, tuple[str, str]] = {}
    with shard.path.open("rb") as source:
        for stored in shard.tensors:
            before, after = hashlib.sha256(), hashlib.sha256()
            for chunk in _chunks(source, shard.data + stored.start, stored.stop - stored.start):
                before.update(chunk)
                if stored.name not in replaced:
                    file.write(chunk)
            if stored.name in replaced:
                content = bytes_of(replaced[stored.name])
                after.update(content)
                file.write(content)
            hashes[stored.name] = before.hexdigest(), (after if stored.name in replaced else before).hexdigest()
    return hashes


def bytes_of(tensor: Tensor) -> bytes:
    """The numbers as safetensors stores them."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _header(shard: Shard, replaced: Mapping[str, Tensor]) -> bytes:
    if all(tuple(replaced[stored.name].shape) == stored.shape for stored in shard.tensors if stored.name in replaced):
        with shard.path.open("rb") as source:
            return source.read(shard.data)
    entries: dict[str, Any] = {} if shard.metadata is None else {"__metadata__": shard.metadata}
    start = 0
    for stored in shard.tensors:
        new = replaced.get(stored.name)
        length = stored.stop - stored.start if new is None else new.numel() * new.element_size()
        entries[stored.name] = {"dtype": stored.dtype, "shape": list(stored.shape if new is None else new.shape), "data_offsets": [start, start + length]}
        start += length
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    return len(text).to_bytes(8, "little") + text


def _chunks(source: BinaryIO, start: int, length: int) -> Iterator[bytes]:
    source.seek(start)
    while length > 0:
        chunk = source.read(min(CHUNK, length))
        if not chunk:
            return
        length -= len(chunk)
        yield chunk
