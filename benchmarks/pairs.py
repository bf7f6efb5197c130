"""Timing by pairs: ours and the peer in turn, the ratio taken within each pair, so that a busy machine slows both alike."""

import gc
import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Pair:
    """Ours against a peer on one case. Seconds are the medians; `ratio` is the median of the paired ratios.

    `busy_ratio` is the same of processor time, which others who use the machine do not lengthen.
    """

    case: str
    peer: str
    ours_s: float
    peer_s: float
    ratio: float
    lowest: float
    highest: float
    rounds: int
    goal: float | None = None
    note: str = ""
    busy_ratio: float = float("nan")

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self.ratio <= self.goal


@dataclass(frozen=True)
class Report:
    """What a benchmark found, and on which machine."""

    name: str
    machine: dict[str, Any]
    pairs: list[Pair]
    numbers: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        rows = [asdict(pair) | {"reached": pair.reached} for pair in self.pairs]
        return {"name": self.name, "machine": self.machine, "pairs": rows, "numbers": self.numbers}


def paired(case: str, ours: Callable[[], object], peer: Callable[[], object], *, peer_name: str, rounds: int = 5, goal: float | None = None) -> Pair:
    """Time ours and the peer in turn; one untimed round first. The order changes every round."""
    ours()
    peer()
    mine, theirs = [], []
    for index in range(rounds):
        gc.collect()
        turn = [(ours, mine), (peer, theirs)]
        for call, taken in turn if index % 2 else reversed(turn):
            start, busy = time.perf_counter(), time.process_time()
            call()
            taken.append((time.perf_counter() - start, time.process_time() - busy))
    ratios, busy = ([a[which] / b[which] for a, b in zip(mine, theirs, strict=True)] for which in (0, 1))
    seconds = [statistics.median(taken[0] for taken in each) for each in (mine, theirs)]
    return Pair(case, peer_name, *seconds, statistics.median(ratios), min(ratios), max(ratios), rounds, goal, busy_ratio=statistics.median(busy))


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures; `quiet` is False when others used the cores meanwhile."""
    others = _of_others()
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    flags = next((line for line in _lines("/proc/cpuinfo") if line.startswith("flags")), "").split()
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "instructions": [flag for flag in ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile") if flag in flags],
        "threads": torch.get_num_threads(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "headwise": version("headwise"),
        "others": round(others, 3),
        "quiet": others < QUIET,
    }


def _of_others() -> float:
    """The share of all cores' time since this module was loaded that others spent: 0 on a machine that did nothing else."""
    (began, busy, own), now = START, _clocks()
    return max(0.0, (now[1] - busy) - (now[2] - own)) / max((now[0] - began) * (os.cpu_count() or 1), 1e-9)


def _clocks() -> tuple[float, float, float]:
    """Seconds: the clock, at work on all cores by anybody, and by this process and those of its children that have ended."""
    stat = next(iter(_lines("/proc/stat")), "cpu 0 0 0 0 0 0 0").split()
    user, nice, system, _, _, irq, soft = (int(x) for x in stat[1:8])
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK"), sum(one.ru_utime + one.ru_stime for one in own)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


QUIET = 0.05  # of all cores' time, by others
START = _clocks()
