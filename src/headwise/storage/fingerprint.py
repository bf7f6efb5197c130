"""One fingerprint for everything that a cached or resumed result depends on: weights, inputs, options, functions, code, libraries.

A value is serialised as typed parts with their lengths, so that different values give different streams, and hashed with XXH3 (128 bits). XXH3 reads
30 GB/s on one core, so whole weights are hashed each time, instead of samples or version counters. It is not cryptographic: it detects changes, but is
no defence against deliberate collisions.
"""

import copyreg
import enum
import os
import struct
import sys
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from headwise.errors import FingerprintError
from headwise.storage.callable_content import callable_content
from headwise.storage.content import Content, Parts
from headwise.storage.model_content import model_content
from headwise.storage.tensor_content import array_content, tensor_content

BLOCK = 1 << 22  # bytes of a file that are read at once
Key = dict[str, str]  # from the name of an ingredient to its fingerprint


def fingerprint(value: Any) -> str:
    """32 hexadecimal digits that change with anything in a value: numbers, strings, tensors, containers, dataclasses, functions, modules, tokenizers.

    Tensors count by every number, dtype, shape and device; dicts and sets do not depend on their order; functions count by their code (bytecode,
    defaults, closure, the globals they read), functions of an installed library by its version.

    Raises:
        FingerprintError: the content of something in it cannot be determined (an open file, a lock, a tensor without numbers).

    Example:
        >>> fingerprint([1, 2]) == fingerprint([1, 2]), fingerprint([1, 2]) == fingerprint([1, 2.0])
        (True, False)
        >>> scale = 2
        >>> fingerprint(lambda x: x * scale) == fingerprint(lambda y: y + scale)
        False
    """
    stream = _Stream()
    try:
        stream.add("", value)
    except RecursionError:
        raise FingerprintError(f"a {type(value).__name__} is nested too deeply to be fingerprinted: some hundred levels at most. Flatten it.") from None
    return stream.digest.hexdigest()


def fingerprint_file(path: Path) -> str:
    """A fingerprint of all bytes of a file.

    Raises:
        OSError: it cannot be read.
    """
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        block = bytearray(BLOCK)
        while count := file.readinto(block):
            digest.update(memoryview(block)[:count])
    return digest.hexdigest()


def key_of(**ingredients: Any) -> Key:
    """The key of a result: a fingerprint of each ingredient by name, so that a key that does not match can say what differs.

    Raises:
        FingerprintError: the content of an ingredient cannot be determined; the message names it.

    Example:
        >>> one, other = key_of(texts=["a"], seed=0), key_of(texts=["a"], seed=1)
        >>> differences(one, other)
        ['seed']
    """
    found = {}
    for name, value in ingredients.items():
        try:
            found[name] = fingerprint(value)
        except FingerprintError as error:
            raise FingerprintError(f"the content of {name} cannot be determined: {error}") from None
    return found


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The ingredients in which two keys differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


class _Stream:
    """A digest of a stream of contents."""

    def __init__(self) -> None:
        self.digest = xxhash.xxh3_128()
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # so that no address is given twice
        self.inside: set[int] = set()

    def add(self, name: str, value: Any) -> None:
        if id(value) in self.seen:
            self._write(name, Content("seen", str(self.seen[id(value)]).encode()))
            return
        if id(value) in self.inside:
            raise FingerprintError(f"a {type(value).__name__} contains itself and cannot be fingerprinted. Pass plain data.")
        if isinstance(value, memoryview):
            self._write(name, Content("bytes", value))
            return
        content = content_of(value)
        if content.identity:
            self.seen[id(value)] = len(self.seen)
            self.alive.append(value)
        self._write(name, content)
        self._add_parts(value, content)

    def _add_parts(self, value: Any, content: Content) -> None:
        self.inside.add(id(value))
        for name, part in content.parts:
            self.add(name, part)
        self.inside.discard(id(value))

    def _write(self, name: str, content: Content) -> None:
        head = [name.encode("utf-8", "surrogatepass"), content.kind.encode()]
        size = len(content.data) if not isinstance(content.data, memoryview) else content.data.nbytes
        self.digest.update(struct.pack("<4q", *map(len, head), size, len(content.parts)))
        for data in (*head, content.data):
            self.digest.update(data)


def content_of(value: Any) -> Content:
    """The content of any value.

    Raises:
        FingerprintError: it cannot be determined.
    """
    if isinstance(value, Content):
        return value
    plain = _plain_content(value)
    if plain is not None:
        return plain
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return tensor_content(value)
    if isinstance(value, np.ndarray | np.generic):
        return array_content(np.asarray(value))
    found = callable_content(value) or model_content(value) or _container_content(value)
    return found if found is not None else _object_content(value)


def _plain_content(value: Any) -> Content | None:
    if value is None or value is Ellipsis or value is NotImplemented:
        return Content(repr(value))
    if isinstance(value, enum.Enum):
        return Content("enum", f"{type(value).__qualname__}.{value.name}".encode(), [("value", value.value)])
    if isinstance(value, bool | int):
        return Content("bool" if isinstance(value, bool) else "int", repr(int(value)).encode())
    if isinstance(value, float | complex):
        numbers = (value.real, value.imag) if isinstance(value, complex) else (value,)
        return Content(f"float{len(numbers)}", b"".join(struct.pack("<d", x if x == x else float("nan")) for x in numbers))
    if isinstance(value, str):
        return Content("str", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray):
        return Content("bytes", bytes(value))
    if isinstance(value, os.PathLike):
        return Content("path", os.fsencode(value))
    return None


def _container_content(value: Any) -> Content | None:
    if isinstance(value, range):
        return Content("range", f"{value.start} {value.stop} {value.step}".encode())
    if isinstance(value, list | tuple):
        return Content("list" if isinstance(value, list) else "tuple", parts=[("", x) for x in value])
    if isinstance(value, Set):
        return Content("set", parts=[("", x) for x in sorted(map(fingerprint, value))])
    if isinstance(value, Mapping):
        return Content("dict", parts=_items(value))
    return None


def _items(value: Mapping[Any, Any]) -> Parts:
    if all(type(name) is str for name in value):
        return sorted(value.items(), key=lambda item: item[0])
    return sorted(((fingerprint(name), x) for name, x in value.items()), key=lambda item: item[0])


def _object_content(value: Any) -> Content:
    """The content of any other object as pickle sees it: its class and its state."""
    kind = type(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Generator):
        return Content("generator", str(value.device).encode(), [("state", value.get_state())])
    try:
        reduce = copyreg.dispatch_table.get(kind)
        taken = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    except Exception as error:  # noqa: BLE001 - __reduce_ex__ is anybody's code
        raise FingerprintError(f"a {kind.__module__}.{kind.__qualname__} has no content that can be read: {error}. Pass plain data or a function.") from None
    if isinstance(taken, str):
        return Content("global", f"{kind.__module__}.{taken}".encode())
    make, arguments, state, items, pairs = (*taken, None, None, None)[:5]
    parts = [("make", make), ("arguments", arguments), ("state", state)]
    return Content("object", parts=[*parts, ("items", list(items or ())), ("pairs", list(pairs or ()))], identity=True)  # pyright: ignore[reportArgumentType]
