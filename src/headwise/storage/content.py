"""The form in which a value is fingerprinted: its kind, its bytes, and the values it contains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Buffer = bytes | bytearray | memoryview
Parts = Sequence[tuple[str, Any]]


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a value.

    Attributes:
        kind: such as "str", "tensor" or "function".
        data: the part of the content that is plain bytes.
        parts: contained values by name, in an order that does not depend on how they are stored.
        identity: the value may contain itself or be shared: its content is written once and referred to afterwards.
    """

    kind: str
    data: Buffer = b""
    parts: Parts = ()
    identity: bool = False
