"""What a value is made of: its kind, its bytes, and further values. The form in which every value is fingerprinted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Buffer = bytes | bytearray | memoryview
Parts = Sequence[tuple[str, Any]]


@dataclass(frozen=True, eq=False)
class Content:
    """A value taken apart.

    Attributes:
        kind: what it is: "str", "tensor", "function".
        data: what can be written as bytes at once.
        parts: further values, by name, in an order that does not depend on how they happen to be stored.
        identity: the value may contain itself, or is used in many places: it is taken apart once, and referred to afterwards.
    """

    kind: str
    data: Buffer = b""
    parts: Parts = ()
    identity: bool = False
