"""`hw.attend` with every statistic against torch's fused attention, which gives none; and how near both come to the machine's sgemm."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.pairs import Pair, Report, machine, paired
from headwise.attention.attend import attend


@dataclass(frozen=True)
class Case:
    """One shape, what is asked of ours, and what the peer is given."""

    name: str
    goal: float | None
    heads: int = 12
    groups: int = 12
    queries: int = 4096
    keys: int = 4096
    width: int = 64
    dtype: torch.dtype = torch.float32
    options: dict[str, Any] = field(default_factory=dict)
    peer: dict[str, Any] = field(default_factory=dict)
    gather: tuple[str, ...] = ("all",)
    backend: str | None = None

    def pair(self, threads: int, rounds: int) -> Pair:
        generator = torch.Generator().manual_seed(0)
        query = torch.randn(1, self.heads, self.queries, self.width, generator=generator).to(self.dtype)
        key, value = torch.randn(2, 1, self.groups, self.keys, self.width, generator=generator).to(self.dtype)
        grouped = {"enable_gqa": True} if self.groups != self.heads else {}
        return paired(
            f"{self.name}, {threads} thread{'s' * (threads > 1)}",
            lambda: attend(query, key, value, **self.options, statistics=self.gather, backend=self.backend),
            lambda: scaled_dot_product_attention(query, key, value, **self.peer, **grouped),
            peer_name="torch SDPA",
            rounds=rounds,
            goal=self.goal,
        )


def cases(threads: int, quick: bool) -> Iterator[Case]:
    """Goals are for a machine with AVX-512."""
    causal = {"options": {"causal": True}, "peer": {"is_causal": True}}
    goal = 1.0 if threads == 1 else 0.85
    for length in (1024,) if quick else (1024, 4096, 16384):
        heads = 12 if length < 16384 else 2
        for name, how in (("full", {}), ("causal", causal)):
            yield Case(f"T = {length}, {heads} heads of width 64, {name}", goal, heads, heads, length, length, **how)
    if quick:
        return
    for name, how in (("full", {}), ("causal", causal)):
        yield Case(f"T = 4096, 8 heads of width 128, {name}", 1.0, 8, 8, width=128, **how)
    yield Case("T = 4096, 32 heads on 8 key heads of width 128, causal", 1.0, 32, 8, width=128, **causal)
    yield Case(
        "window of 512 in T = 16384, causal, against full causal", 0.15, 2, 2, 16384, 16384, options={"causal": True, "window": 512}, peer={"is_causal": True}
    )
    mask = torch.rand(1, 1, 4096, 4096, generator=torch.Generator().manual_seed(1)) > 0.5
    yield Case("T = 4096, bool mask of half the pairs", 0.85, options={"mask": mask}, peer={"attn_mask": mask})
    yield Case("T = 4096, bfloat16", 0.8, dtype=torch.bfloat16)
    yield Case("one query of 32 heads on 8 key heads, 32768 keys of width 128", 1.0, 32, 8, 1, 32768, 128)
    yield Case("T = 4096, with received", 1.6, gather=("all", "received"))
    yield Case("T = 4096, no statistics", None, gather=())
    yield Case("T = 1024, stream, four statistics", None, queries=1024, keys=1024, gather=("entropy", "max_weight", "distance", "first"), backend="stream")


def run(quick: bool) -> Report:
    """Full, causal, windowed, masked, grouped, half-precision and one-query attention, on one thread and on all."""
    pairs, numbers, threads = [], {}, torch.get_num_threads()
    for count in sorted({1, threads}):
        torch.set_num_threads(count)
        pairs += [case.pair(count, rounds=9 if case.queries <= 1024 else 3) for case in cases(count, quick)]
        numbers |= _rates(count, 1024 if quick else 4096)
    torch.set_num_threads(threads)
    return Report("attend", machine(), pairs, numbers)


def _rates(threads: int, length: int) -> dict[str, float]:
    """Multiplications and additions a second of processor time, in units of 10^9, in turn: sgemm, SDPA and ours on full attention."""
    a, b = torch.randn(2, 2048, 2048)
    query, key, value = torch.randn(3, 1, 4, length, 64)
    work = {
        "sgemm": (2 * 2048**3, lambda: a @ b),
        "torch SDPA": (4 * 4 * length**2 * 64, lambda: scaled_dot_product_attention(query, key, value)),
        "all statistics": (4 * 4 * length**2 * 64, lambda: attend(query, key, value, statistics="all")),
        "no statistics": (4 * 4 * length**2 * 64, lambda: attend(query, key, value)),
    }
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(5):
        for name, (_, call) in work.items():
            start = time.process_time()
            call()
            taken[name].append(time.process_time() - start)
    rates = {name: work[name][0] / statistics.median(seconds) / 1e9 for name, seconds in taken.items()}
    found = {f"{name}, T = {length}, {threads} thread{'s' * (threads > 1)}, GFLOP/s of each core": rate for name, rate in rates.items()}
    return found | {f"all statistics against sgemm, {threads} thread{'s' * (threads > 1)}": rates["all statistics"] / rates["sgemm"]}


ENTRY = run
