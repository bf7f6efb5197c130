"""Peak memory beyond the inputs of each attention implementation, by length; measured in a process that does nothing else.

Read from Linux's peak resident size of the process, which is reset before each call.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headwise.errors import ModelError
from headwise.experiments.measurements.growth import LENGTHS, Shape, implementations, random_inputs

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
OWN_PAGES = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}  # what is let go of goes back at once, so that nothing is used again unseen
LIMIT = 120  # seconds


def measure_peaks(shape: Shape) -> dict[str, list[float]]:
    """MiB by way, then by length.

    Raises:
        ModelError: this system does not report the memory of a process, or the process failed.
    """
    if not CLEAR.exists():
        raise ModelError(f"peak memory must be read from {STATUS}, got no such file on this system. Only time can be measured here.")
    command = [sys.executable, "-m", "headwise.experiments.measurements.peak_memory", str(shape.heads), str(shape.width), str(int(shape.causal))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **OWN_PAGES}, check=False)
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"peak memory must be measured within {LIMIT} s, got no answer. The machine is busy: try again.") from error
    if done.returncode:
        raise ModelError(f"peak memory must be measured in a process of its own, got exit code {done.returncode}: {done.stderr.strip()[-200:]}.")
    return json.loads(done.stdout)


def measure_here(shape: Shape, lengths: Sequence[int] = LENGTHS) -> dict[str, list[float]]:
    """MiB by way, then by length, in this process."""
    found: dict[str, list[float]] = {}
    for name, way in implementations(shape.causal).items():
        way(*random_inputs(shape, 64))  # what is set up once is set up
        found[name] = []
        for length in lengths:
            inputs = random_inputs(shape, length)
            before = reset_peak()
            kept = way(*inputs)
            found[name].append(max(read_peak() - before, 0.0))
            del kept
    return found


def reset_peak() -> float:
    """MiB held now; `peak` counts from here."""
    CLEAR.write_text("5")
    return read_peak()


def read_peak() -> float:
    """The most MiB held since `forget`."""
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    heads, width, causal = map(int, sys.argv[1:4])
    sys.stdout.write(json.dumps(measure_here(Shape(heads, width, bool(causal)))))
