"""Convert a call to the plain arrays that the compiled kernel takes, and its results back."""

from collections.abc import Iterator
from types import MappingProxyType

import torch

from headwise.attention.backward import with_gradients
from headwise.attention.call import Attended, Call, accumulation_dtype, tile_of
from headwise.attention.kernels.native.library import HOW_TO_BUILD, compiled, instruction_set, library
from headwise.attention.mask import VisibleKeys, visible_keys
from headwise.attention.statistic import label_count
from headwise.axes import Bool, Float, Int, Interval, Key, Query, Tensor, Value

NUMBERS = ("entropy", "max_weight", "participation", "distance", "first", "previous", "self", "sink")  # the order of problem.h
KNOWN = frozenset({*NUMBERS, "peak", "segment", "received"})
TILED_BYTES = 8 << 20  # of a mask or bias that is evaluated for some rows at a time


def refusal(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> str | None:
    if compiled() is None:
        return f"the native kernel is not built here. {HOW_TO_BUILD}"
    if query.device.type != "cpu":
        return f"it computes on the CPU, the tensors are on {query.device}"
    unknown = [name for name in statistics if name not in KNOWN]
    return f"it does not compute the statistic {unknown[0]!r}" if unknown else None


def attend(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    return with_gradients(forward, query, key, value, call, statistics)


def forward(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    visible = visible_keys(call, query.shape[2], key.shape[2])
    if isinstance(visible.mask, Tensor | None) and isinstance(call.bias, Tensor | None):
        return _run(query, key, value, call, visible, visible.mask, call.bias, 0, 0, statistics)
    output = torch.empty((*query.shape[:3], value.shape[3]), dtype=query.dtype)
    lse, found = torch.empty(query.shape[:3], dtype=accumulation_dtype(query.dtype)), {}
    for rows in row_blocks(query, query.shape[2], key.shape[2]):
        part = _run_rows(query, key, value, call, visible, rows, statistics)
        output[:, :, rows], lse[:, :, rows] = part.output, part.lse
        for name, x in part.statistics.items():
            _put(found, name, x, rows, query.shape[2])
        del part  # or its small tensors would take the place of the freed plane, the next plane would need new memory, and so on: T × S in all
    return Attended(output, lse, MappingProxyType(found))


def _put(found: dict[str, Tensor], name: str, part: Tensor, rows: slice, queries: int) -> None:
    """Store the statistic of some rows; what keys receive is summed."""
    if name == "received":
        found[name] = part + found[name] if name in found else part.clone()
        return
    if name not in found:
        found[name] = part.new_empty((*part.shape[:2], queries, *part.shape[3:]))
    found[name][:, :, rows] = part


def row_blocks(query: Query, rows: int, keys: int, unit: int = 1) -> Iterator[slice]:
    """Slices of so many rows, each a multiple of `unit`, for which a mask or bias takes at most `TILED_BYTES`."""
    step = max(1, TILED_BYTES // max(1, 4 * query.shape[0] * query.shape[1] * keys * unit)) * unit
    return (slice(start, min(start + step, rows)) for start in range(0, max(rows, 1), step))


def _run_rows(query: Query, key: Key, value: Value, call: Call, visible: VisibleKeys, rows: slice, statistics: tuple[str, ...]) -> Attended:
    """Evaluate mask and bias for some rows, over the keys within their intervals, and compute these rows."""
    part = VisibleKeys(_rows_of(visible.first, rows), _rows_of(visible.stop, rows), None)
    keys = _key_span(part)
    mask = None if visible.mask is None else tile_of(visible.mask, rows, keys)
    bias = None if call.bias is None else tile_of(call.bias, rows, keys)
    return _run(query[:, :, rows], key, value, call, part, mask, bias, keys.start, rows.start, statistics)


def _rows_of(interval: Interval, rows: slice) -> Int[Tensor, "#B #H t"]:
    return interval[:, :, rows] if interval.shape[2] > 1 else interval


def _key_span(visible: VisibleKeys) -> slice:
    """The keys within the interval of some row."""
    nonempty = visible.first < visible.stop
    if not bool(nonempty.any()):
        return slice(0, 0)
    return slice(int(visible.first.where(nonempty, visible.stop).min()), int(visible.stop.where(nonempty, 0).max()))


def plain(x: Tensor) -> Tensor:
    """The tensor detached, with its values as they are in memory: a view of a conjugate may have a pending negation."""
    return x.detach().resolve_neg()


def _run(
    query: Query,
    key: Key,
    value: Value,
    call: Call,
    visible: VisibleKeys,
    mask: Bool[Tensor, "#B #H #T #s"] | None,
    bias: Float[Tensor, "#B #H #T #s"] | None,
    first_key: int,
    first_row: int,
    statistics: tuple[str, ...],
) -> Attended:
    """Run the kernel; `mask` and `bias` begin at `first_key`, the queries at `first_row` of the call."""
    rows, dtype = query.shape[:3], accumulation_dtype(query.dtype)
    segments = call.segments if "segment" in statistics else None
    spans = 0 if segments is None else label_count(segments)
    shapes = {"segment": (*rows, spans), "received": (*query.shape[:2], key.shape[2])}
    found = {name: torch.empty(shapes.get(name, rows), dtype=torch.int64 if name == "peak" else dtype) for name in statistics}
    output, lse = torch.empty((*rows, value.shape[3]), dtype=query.dtype), torch.empty(rows, dtype=dtype)
    library().attend(
        query=plain(query),
        key=plain(key),
        value=plain(value),
        first=visible.first,
        stop=visible.stop,
        offset=call.offset + first_row,
        mask=mask,
        bias=None if bias is None else plain(bias).to(dtype),
        plane_start=first_key,
        scale=call.scale,
        softcap=call.softcap or 0.0,
        sink=None if call.sink is None else plain(call.sink).double(),
        segments=None if segments is None else segments.contiguous(),
        labels=spans,
        output=output,
        lse=lse,
        number=[found.get(name) for name in NUMBERS],
        peak=found.get("peak"),
        spans=found.get("segment"),
        received=found.get("received"),
        threads=torch.get_num_threads(),
        isa=instruction_set(),
    )
    return Attended(output, lse, MappingProxyType(found))
