"""`model.run` with every statistic of every head against the model's own forward, on SmolLM2."""

import json
import subprocess
import sys

import torch

import headwise as hw
from benchmarks.pairs import Pair, Report, machine, paired

PROBE = """
import json, sys, torch
from benchmarks.peak import forget, peak
import headwise as hw
which, length = sys.argv[1], int(sys.argv[2])
model = hw.open_model("demo:smollm2")
ids = {"input_ids": torch.randint(1000, 40000, (1, length), generator=torch.Generator().manual_seed(0))}
warm = {"input_ids": ids["input_ids"][:, :32]}
if which != "run":
    model.hf.set_attn_implementation(which)
run = (lambda x: model.run(x)) if which == "run" else (lambda x: model.hf(**x, output_attentions=which == "eager"))
with torch.no_grad():
    run(warm)
    before = forget()
    kept = run(ids)
print(json.dumps(peak() - before))
"""


def run(quick: bool) -> Report:
    """1,024 and 4,096 tokens; eager with output_attentions at 4,096 needs 18 GB for its weights alone."""
    model = hw.open_model("demo:smollm2")
    lengths = (256,) if quick else (1024, 4096)
    pairs = [_against_sdpa(model, length, goal=2.5 if length == 1024 else None) for length in lengths]
    pairs += [_against_eager(model, length, goal=1.0) for length in lengths]
    numbers = {}
    for which in ("sdpa", "run", "eager"):
        found = subprocess.run([sys.executable, "-c", PROBE, which, str(lengths[-1])], capture_output=True, text=True, check=True)
        numbers[f"{which}, T = {lengths[-1]}, MiB of peak memory beyond the model"] = json.loads(found.stdout)
    return Report("model", machine(), pairs, numbers)


def _ids(length: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(1000, 40000, (1, length), generator=torch.Generator().manual_seed(0))}


def _against_sdpa(model: "hw.Model", length: int, goal: float | None) -> Pair:
    ids = _ids(length)
    model.hf.set_attn_implementation("sdpa")
    plain = torch.no_grad()(lambda: model.hf(**ids))
    return paired(f"run, all statistics, T = {length}", lambda: model.run(ids), plain, peer_name="sdpa forward", rounds=5 if length < 4096 else 3, goal=goal)


def _against_eager(model: "hw.Model", length: int, goal: float) -> Pair:
    ids = _ids(length)

    @torch.no_grad()
    def eager() -> None:
        model.hf.set_attn_implementation("eager")
        model.hf(**ids, output_attentions=True)
        model.hf.set_attn_implementation("sdpa")

    rounds = 3 if length < 4096 else 1
    return paired(f"run, all statistics, T = {length}", lambda: model.run(ids), eager, peer_name="eager + output_attentions", rounds=rounds, goal=goal)


ENTRY = run
