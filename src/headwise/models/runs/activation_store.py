"""What a run keeps of each attention call, within its memory budget: enough to make every weight again."""

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, fields

from headwise.attention.call import Call
from headwise.axes import Bool, Float, Key, Query, Rows, Tensor
from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.models.capture.recorder import AttentionRecord

UNITS = {"": 1, "B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True, eq=False)
class StoredCall:
    """One attention call.

    Attributes:
        z: what W_O reads of it; None where W_O was not found.
        padding: True where a key is a real token; None where the mask has no padding.
    """

    query: Query
    key: Key
    lse: Rows
    call: Call
    z: Float[Tensor, "B T H E"] | None
    padding: Bool[Tensor, "B S"] | None


def stored_call(record: AttentionRecord) -> StoredCall:
    """What is kept of a recorded call."""
    request = record.request
    z = None if record.z is None else _compact(record.z)
    return StoredCall(_compact(request.query), _compact(request.key), record.attended.lse, request.call, z, request.padding)


class ActivationStore:
    """Calls by number, the least recently used ones dropped when a newer one needs the room.

    Args:
        budget: bytes for tensors; one that several calls share counts once.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.calls: OrderedDict[int, StoredCall] = OrderedDict()

    def offer(self, index: int, call: StoredCall) -> None:
        """Keep a call if there is room left."""
        if self._size([*self.calls.values(), call]) <= self.budget:
            self.calls[index] = call

    def put(self, index: int, call: StoredCall) -> None:
        """Keep a call, at the cost of those that were used longest ago."""
        if self._size([call]) > self.budget:
            return
        while self.calls and self._size([*self.calls.values(), call]) > self.budget:
            self.calls.popitem(last=False)
        self.calls[index] = call

    def get(self, index: int) -> StoredCall | None:
        if index in self.calls:
            self.calls.move_to_end(index)
        return self.calls.get(index)

    @property
    def bytes(self) -> int:
        return self._size(list(self.calls.values()))

    @staticmethod
    def _size(calls: list[StoredCall]) -> int:
        sizes = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for call in calls for x in _tensors(call)}
        return sum(sizes.values())


def parse_bytes(memory: str | int) -> int:
    """A budget in bytes.

    Example:
        >>> parse_bytes("1GiB"), parse_bytes("1.5 kB"), parse_bytes(1000)
        (1073741824, 1500, 1000)
    """
    if isinstance(memory, bool) or not isinstance(memory, int | str):
        raise ArgumentTypeError(f"memory must be bytes or a text like '1GiB', got {type(memory).__name__}. Pass '512MiB', say.")
    if isinstance(memory, int):
        number, unit = float(memory), ""
    else:
        found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", memory)
        number, unit = (float(found[1]), found[2]) if found and found[1].count(".") <= 1 and found[1] != "." else (-1.0, "")
    if number < 0 or unit not in UNITS:
        raise ArgumentError(f"memory must be bytes or a number with one of {', '.join(unit for unit in UNITS if unit)}, got {memory!r}. Pass '512MiB', say.")
    return int(number * UNITS[unit])


def _compact(x: Tensor) -> Tensor:
    """The tensor, copied where it is a part of a larger one, which would be kept whole."""
    return x.clone() if x.untyped_storage().nbytes() > x.numel() * x.element_size() else x


def _tensors(call: StoredCall) -> Iterator[Tensor]:
    yield from (x for x in (call.query, call.key, call.lse, call.z, call.padding) if x is not None)
    for part in fields(call.call):
        x = getattr(call.call, part.name)
        if isinstance(x, Tensor):
            yield x
        elif x is not None:
            yield from (y for y in vars(x).values() if isinstance(y, Tensor)) if hasattr(x, "__dict__") else ()
