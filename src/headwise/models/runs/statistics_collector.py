"""Gathers, during a pass, the statistics of each call and what the run keeps of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from headwise.attention.weights import weights
from headwise.axes import Bool, Float, Rows, Tensor
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.runs.activation_store import ActivationStore, StoredCall, stored_call
from headwise.models.runs.malloc_trim import trim
from headwise.models.runs.slicing import one_head

ROWS_AT_ONCE = 512  # of a map of weights held in memory
TRIM_BYTES = 96 << 20  # bytes kept between two trims, each of which costs some 40 ms


@dataclass(frozen=True, eq=False)
class CallStatistics:
    """What a run keeps of a call whatever the memory budget.

    Attributes:
        shape: [B, H, G, T, S].
        lse: to see that a later pass is the same pass.
        padding: True where a key is a real token; None where the mask has no padding.
    """

    shape: tuple[int, int, int, int, int]
    statistics: Mapping[str, Tensor]
    lse: Rows
    padding: Bool[Tensor, "B S"] | None
    notes: tuple[str, ...]


class StatisticsCollector:
    """Collects the records of a run's first pass."""

    def __init__(self, store: ActivationStore) -> None:
        self.store = store
        self.numbers: dict[int, CallStatistics] = {}
        self.trimmed = 0

    def __call__(self, record: AttentionRecord) -> None:
        call = stored_call(record)
        statistics = {name: x.cpu() for name, x in record.attended.statistics.items()}
        if "first" in statistics and call.padding is not None:
            statistics["first"] = _on_first_token(statistics["first"], call)
        if "received" in statistics and record.request.query_padding is not None:
            statistics["received"] = _of_real_queries(statistics["received"], call, record.request.query_padding)
        padding = None if call.padding is None else call.padding.cpu()
        shape = (call.query.shape[0], call.query.shape[1], call.key.shape[1], call.query.shape[2], call.key.shape[2])
        self.numbers[record.index] = CallStatistics(shape, statistics, call.lse, padding, record.request.notes)
        self.store.offer(record.index, call)
        if self.store.bytes - self.trimmed > TRIM_BYTES:
            self.trimmed = self.store.bytes
            trim()


def _on_first_token(first: Rows, call: StoredCall) -> Rows:
    """The weight on the first key that is a token: behind left padding that is not key 0."""
    found = first.clone()
    for batch, start in enumerate(call.padding.to(torch.uint8).argmax(-1).tolist()):
        for head in range(first.shape[1]) if start else ():
            query, key, lse, alone = one_head(call, batch, head)
            found[batch, head] = weights(query, key, lse, alone, slice(0, query.shape[2]), slice(start, start + 1))[0, 0, :, 0].cpu()
    return found


def _of_real_queries(received: Float[Tensor, "B H S"], call: StoredCall, real: Bool[Tensor, "B T"]) -> Float[Tensor, "B H S"]:
    """What each key receives from the queries that are tokens."""
    found = received.clone()
    every = slice(0, call.key.shape[2])
    for batch, row in enumerate(real.cpu()):
        for head in range(received.shape[1]) if not bool(row.all()) else ():
            query, key, lse, alone = one_head(call, batch, head)
            total = torch.zeros(every.stop, dtype=lse.dtype, device=lse.device)
            for start in range(0, len(row), ROWS_AT_ONCE):
                rows = slice(start, min(start + ROWS_AT_ONCE, len(row)))
                some = weights(query, key, lse, alone, rows, every)[0, 0]
                total += some[row[rows].to(some.device)].sum(0)
            found[batch, head] = total.cpu()
    return found
