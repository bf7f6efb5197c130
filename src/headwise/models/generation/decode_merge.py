"""The passes of a generation merged into one: the rows of a call at all steps, stacked, over all keys that there were.

A step computes one row of every call, over the keys that its cache still holds. That these are the very keys of earlier steps is
checked, to the last bit; where a model caches something else, the steps cannot be merged.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import pad

from headwise.attention.call import Attended, Call, Tiled, tile_of
from headwise.attention.mask import LazyMask, VisibleKeys, visible_keys
from headwise.axes import Bool, Float, Key, Tensor, Value
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.layout import AttentionSite, Layout


class CannotMerge(Exception):
    """The steps are not rows of one attention: not an error, the whole text is run in one pass instead."""


@dataclass(frozen=True, eq=False)
class StepRows:
    """The rows of one pass: its visibility and bias, with its keys at their place among all keys."""

    rows: slice
    keys: slice
    seen: VisibleKeys
    bias: Tensor | Tiled | None


class MergedMask(LazyMask):
    """Visibility in all passes; keys that a cache had dropped are hidden.

    Args:
        over: True where a key comes after the end of its text, [B, S]; None where none does.
    """

    def __init__(self, steps: Sequence[StepRows], over: Bool[Tensor, "B S"] | None) -> None:
        self.steps, self.over = steps, over
        self.first = _stacked([step.seen.first + step.keys.start for step in steps])
        self.stop = _stacked([step.seen.stop + step.keys.start for step in steps])

    def tile(self, rows: slice, keys: slice) -> Bool[Tensor, "#B #H t s"]:
        seen = _stacked([pad(_seen_of(step, *part), margin) for step, part, margin in _overlaps(self.steps, rows, keys)], 2)
        return seen if self.over is None else seen & ~self.over[:, None, None, keys]

    def intervals(self) -> VisibleKeys:
        plain = self.over is None and all(step.seen.mask is None for step in self.steps)
        return VisibleKeys(self.first, self.stop, None if plain else self)


class MergedBias(Tiled):
    """The biases of all passes: 0 for keys that a pass did not have."""

    def __init__(self, steps: Sequence[StepRows]) -> None:
        self.steps = steps

    def tile(self, rows: slice, keys: slice) -> Float[Tensor, "#B #H t s"]:
        return _stacked([pad(_bias_of(step, *part), margin) for step, part, margin in _overlaps(self.steps, rows, keys)], 2)


class CallHistory:
    """One call through all passes."""

    def __init__(self, site: AttentionSite, record: AttentionRecord) -> None:
        self.site, self.first = site, record
        self.rows = [_rows_of(record)]
        self.key: Key = record.request.key
        self.value: Value = record.request.value
        self.queries = record.request.query.shape[2]
        self.steps = [_step(record.request.call, 0, self.queries, 0, record.request.key.shape[2])]

    def add(self, record: AttentionRecord) -> None:
        """One more pass.

        Raises:
            CannotJoin: its keys are not those of the passes before it, or it computes by another rule.
        """
        request, first = record.request, self.first.request
        rows = request.query.shape[2]
        start = self._grown(request.key, request.value, rows)
        one, other = first.call, request.call
        if (one.scale, one.softcap) != (other.scale, other.softcap) or not _same(one.sink, other.sink):
            raise CannotMerge(f"{self.site.module} computes a step by another scale, cap or sink than the text before it")
        if not self.site.cross and not torch.equal(other.offset + start, one.offset + self.queries):
            raise CannotMerge(f"{self.site.module} counts the positions of a step otherwise")
        self.steps.append(_step(other, self.queries, rows, start, request.key.shape[2]))
        self.queries += rows
        self.rows.append(_rows_of(record))

    def _grown(self, key: Key, value: Value, rows: int) -> int:
        """Append a pass's new keys, the last ones; the place of its first key among all."""
        if key.shape == self.key.shape and torch.equal(key, self.key) and torch.equal(value, self.value):
            return 0  # cross-attention: the same keys in every pass
        have = self.key.shape[2]
        old = key.shape[2] - rows
        start = have - old
        if old < 0 or start < 0 or not (torch.equal(key[:, :, :old], self.key[:, :, start:]) and torch.equal(value[:, :, :old], self.value[:, :, start:])):
            raise CannotMerge(f"{self.site.module} does not keep the keys and values of the text before a step")
        if start == 0:
            self.key, self.value = key, value
        else:
            self.key, self.value = torch.cat([self.key, key[:, :, old:]], 2), torch.cat([self.value, value[:, :, old:]], 2)
        return start

    def whole(self, index: int, over: Bool[Tensor, "B S"] | None, real: Bool[Tensor, "B S"] | None) -> AttentionRecord:
        """All passes as one call.

        Args:
            over: as for `Pieces`, where its keys are the text's.
            real: True where a token of the text is no padding.
        """
        first = self.first
        if len(self.rows) == 1:
            return replace(first, index=index)
        of_text = real is not None and not self.site.cross and real.shape[1] == self.key.shape[2]
        bias = MergedBias(self.steps) if any(step.bias is not None for step in self.steps) else None
        call = replace(first.request.call, mask=MergedMask(self.steps, over if of_text else None), bias=bias, causal=False, window=None)
        padding = (None if bool(real.all()) else real) if of_text else first.request.padding
        query, output, lse, read, written = (_under(parts, axis) for parts, axis in zip(zip(*self.rows, strict=True), (2, 2, 2, 1, 1), strict=True))
        queries = padding if of_text and padding is not None and padding.shape[1] == query.shape[2] else None
        request = replace(first.request, query=query, key=self.key, value=self.value, call=call, padding=padding, query_padding=queries)
        return AttentionRecord(index, request, Attended(output, lse), read, written)  # pyright: ignore[reportArgumentType]


class DecodeMerge:
    """Collects pass after pass: the n-th call of a module continues its n-th call of the passes before."""

    def __init__(self) -> None:
        self.histories: dict[tuple[str, int], CallHistory] = {}

    def add(self, layout: Layout, records: Sequence[AttentionRecord]) -> None:
        """One more pass.

        Raises:
            CannotJoin: its rows are not rows of the same attention.
        """
        turns: Counter[str] = Counter()
        names = [_named(site, turns) for site in layout.sites]
        numbers = {name: i for i, name in enumerate(dict.fromkeys((*self.histories, *names)))}
        for name, site, one in zip(names, layout.sites, records, strict=True):
            if name in self.histories:
                self.histories[name].add(one)
            else:
                calls = () if site.output is None else tuple(numbers[names[i]] for i in site.output.calls)
                output = None if site.output is None else replace(site.output, calls=calls)
                self.histories[name] = CallHistory(replace(site, index=numbers[name], output=output), one)

    def layout(self, notes: tuple[str, ...]) -> Layout:
        """The layout of all passes together."""
        return Layout(tuple(history.site for history in self.histories.values()), notes)


def _named(site: AttentionSite, turns: "Counter[str]") -> tuple[str, int]:
    """The calling module, and the number of its call within this pass."""
    turns[site.module] += 1
    return site.module, turns[site.module]


def _step(call: Call, row: int, rows: int, start: int, keys: int) -> StepRows:
    return StepRows(slice(row, row + rows), slice(start, start + keys), visible_keys(call, rows, keys), call.bias)


def _overlaps(steps: Sequence[StepRows], rows: slice, keys: slice) -> list[tuple[StepRows, tuple[slice, slice], tuple[int, int]]]:
    """The pieces with some of these rows: which rows and keys of the piece, and how many keys are missing before and after them."""
    found = []
    for step in steps:
        low, high = max(rows.start, step.rows.start), min(rows.stop, step.rows.stop)
        if low < high:
            first = min(max(keys.start, step.keys.start), keys.stop)
            stop = max(min(keys.stop, step.keys.stop), first)
            part = slice(low - step.rows.start, high - step.rows.start), slice(first - step.keys.start, stop - step.keys.start)
            found.append((step, part if stop > first else (part[0], slice(0, 0)), (first - keys.start, keys.stop - stop)))
    return found


def _seen_of(step: StepRows, rows: slice, keys: slice) -> Tensor:
    if keys.stop == keys.start:
        return torch.zeros(1, 1, rows.stop - rows.start, 0, dtype=torch.bool, device=step.seen.first.device)
    return step.seen.tile(rows, keys)


def _bias_of(step: StepRows, rows: slice, keys: slice) -> Tensor:
    height, width = rows.stop - rows.start, keys.stop - keys.start
    if step.bias is None or width == 0:
        return torch.zeros(1, 1, height, width, device=step.seen.first.device)
    tile = tile_of(step.bias, rows, keys)
    return tile.expand(*tile.shape[:2], height, width)


def _stacked(parts: Sequence[Tensor], axis: int = -1) -> Tensor:
    """Stacked along an axis, where batch and heads of each are of full length or 1."""
    b, h = (max(part.shape[i] for part in parts) for i in (0, 1))
    return torch.cat([part.expand(b, h, *part.shape[2:]) for part in parts], axis)


def _rows_of(record: AttentionRecord) -> tuple[Tensor | None, ...]:
    return record.request.query, record.attended.output, record.attended.lse, record.z, record.w_o_output


def _under(parts: Sequence[Tensor | None], axis: int) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known, axis) if len(known) == len(parts) else None


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))
