"""Saves over a checkpoint again and again in children that are killed at random moments; says what was left each time.

Run as a program: SOURCE FOLDER SEED. Prints a line for each kill: "old", "new" or what is wrong.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

import headwise as hw
from headwise.interventions.safetensors_shard import shard_of

KILLS = 20
OTHERS = {"thesis.tex": b"years of work", "checkpoint-500/optimizer.pt": b"weeks of training", "checkpoint-500/model.safetensors": b"its weights"}


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def main(source: Path, folder: Path, seed: int) -> None:
    torch.set_num_threads(1)
    edited = hw.open_model(source).edit(hw.Ablate(1, 2))
    clean = folder / "clean"
    edited.save(clean)
    start = time.monotonic()
    edited.save(clean, overwrite=True)
    took = time.monotonic() - start
    old, new = state(source), state(clean)
    draw = random.Random(seed)
    for number in range(KILLS):
        target = folder / "target"
        shutil.rmtree(target, ignore_errors=True)
        overwrite = number % 2 == 0
        if overwrite:
            shutil.copytree(source, target)
            (target / "checkpoint-500").mkdir()
            for name, content in OTHERS.items():
                (target / name).write_bytes(content)
        child = os.fork()
        if child == 0:
            edited.save(target, overwrite=True)
            os._exit(0)
        time.sleep(draw.uniform(0, 1.1 * took))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = state(target) if target.exists() else None
        if overwrite and {name: (target / name).read_bytes() for name in OTHERS} != OTHERS:
            print("files of somebody else are lost", flush=True)
        if overwrite:
            del found["thesis.tex"]
        whole = found is not None and all(shard_of(target / name).tensors for name in found if name.endswith(".safetensors"))
        told = "old" if found == (old if overwrite else None) else "new" if whole and found == new else f"broken: {sorted(found or ())}"
        print(told, flush=True)
    edited.save(folder / "target", overwrite=True)
    print("left", sorted(path.name for path in folder.iterdir()), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
