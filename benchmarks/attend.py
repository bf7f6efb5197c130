"""`hw.attend` with statistics against torch's fused attention, which gives none."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.pairs import Pair, Report, machine, paired
from headwise.attention.attend import attend

FOUR = ("entropy", "max_weight", "distance", "first")


def run(quick: bool) -> Report:
    """Full and causal attention of 12 heads, width 64; `stream` with four statistics on one thread, the default with all on every thread."""
    pairs: list[Pair] = []
    threads = torch.get_num_threads()
    lengths = (1024,) if quick else (1024, 4096)
    for count in sorted({1, threads}):
        torch.set_num_threads(count)
        for length in lengths:
            for causal in (False, True):
                pairs.append(_pair(length, causal, count, FOUR, "stream", 2.0 if (length, causal, count) == (4096, False, 1) else None))
                pairs.append(_pair(length, causal, count, "all", None, None))
    torch.set_num_threads(threads)
    return Report("attend", machine(), pairs)


def _pair(length: int, causal: bool, threads: int, statistics: str | tuple[str, ...], backend: str | None, goal: float | None) -> Pair:
    query, key, value = torch.randn(3, 1, 12, length, 64, generator=torch.Generator().manual_seed(0))
    what = "all statistics" if statistics == "all" else "four statistics"
    return paired(
        f"{backend or 'default'}, {what}, T = {length}, {'causal' if causal else 'full'}, {threads} thread{'s' * (threads > 1)}",
        lambda: attend(query, key, value, causal=causal, statistics=statistics, backend=backend),
        lambda: scaled_dot_product_attention(query, key, value, is_causal=causal),
        peer_name="torch SDPA",
        rounds=5 if length > 1024 else 15,
        goal=goal,
    )


ENTRY = run
