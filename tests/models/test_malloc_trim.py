"""The most that a run holds is what it keeps and what one layer needs: no holes between the tensors of its layers."""

import subprocess
import sys

import pytest

PEAK = """
from pathlib import Path
import torch
import headwise as hw

def status(name):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(name))

whole = hw.open_model("demo:smollm2")
whole.hf.model.layers = whole.hf.model.layers[:15]
model = hw.open_model(whole.hf.model)
ids = {"input_ids": torch.randint(1000, 40000, (1, 4096), generator=torch.Generator().manual_seed(0))}
model.run({"input_ids": ids["input_ids"][:, :32]})
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
run = model.run(ids)
print(status("VmHWM") - before, run.bytes / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_holds_what_it_keeps():
    peak, kept = map(float, subprocess.run([sys.executable, "-c", PEAK], check=True, capture_output=True, text=True).stdout.split())
    assert kept > 250
    assert peak < kept + 260, f"{peak:.0f} MiB at most, {kept:.0f} of them kept"
