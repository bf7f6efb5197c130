"""Run by `test_spread.py` in a process of its own, as ray leaves threads and sockets behind: prints what came out as JSON."""

import json
import os
import signal

import psutil
import ray
import torch

import headwise as hw
from headwise.errors import HeadwiseError
from tests.models.tiny import build, ids

TEXTS = [ids(batch=1, length=9, seed=seed) for seed in range(3)]


def workers() -> list[int]:
    """The processes that do units."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            name = process.cmdline()[:1]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if name and name[0].startswith("ray::Hand"):
            found.append(process.pid)
    return found


def start() -> None:
    """A cluster of two workers; ray gives its parts half a minute to start, which a busy machine may need twice."""
    for left in (2, 1, 0):
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
            return
        except Exception:  # ray raises bare ones
            ray.shutdown()
            if not left:
                raise


def main() -> None:
    torch.set_num_threads(1)
    start()
    model, seen, killed = hw.open_model(build("llama")), [], []

    def kill(stage: str, done: int, total: int) -> None:
        seen.append([done, total])
        if done == 2 and not killed:
            killed.extend(workers())
            os.kill(killed[0], signal.SIGKILL)

    right = hw.rank(model, TEXTS).effect.values.tolist()
    found = hw.rank(model, TEXTS, ray="auto", progress=kill).effect.values.tolist()
    try:
        hw.rank(model, [(TEXTS[0], TEXTS[1]), (TEXTS[0], TEXTS[1][:, :5])], "patch", ray="auto")
        refused = ""
    except HeadwiseError as error:
        refused = f"{type(error).__name__}: {error}"
    print(json.dumps({"right": right, "found": found, "seen": seen, "workers": len(killed), "refused": refused}))
    ray.shutdown()


if __name__ == "__main__":
    main()
