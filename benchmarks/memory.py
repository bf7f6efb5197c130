"""Peak memory of one attention at 32,768 tokens, each in a process of its own."""

import json
import subprocess
import sys

from benchmarks.pairs import Report, machine

PROBE = """
import json, resource, sys, torch
from torch.nn.functional import scaled_dot_product_attention
from headwise.attention.attend import attend
which, heads, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
query, key, value = (torch.randn(1, heads, length, 64) for _ in range(3))
warm = torch.randn(1, heads, 64, 64)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
run = {
    "sdpa": lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True),
    "stream": lambda q, k, v: attend(q, k, v, causal=True, statistics="all", backend="stream"),
    "default": lambda q, k, v: attend(q, k, v, causal=True, statistics="all"),
}[which]
run(warm, warm, warm)
before = peak()
kept = run(query, key, value)
print(json.dumps(peak() - before))
"""


def run(quick: bool) -> Report:
    """MiB that a causal call of 2 heads adds to its inputs: output, lse, statistics and working memory."""
    heads, length = 2, 4096 if quick else 32768
    numbers = {}
    for which in ("sdpa", "stream", "default"):
        found = subprocess.run([sys.executable, "-c", PROBE, which, str(heads), str(length)], capture_output=True, text=True, check=True)
        numbers[f"{which}, {heads} heads, T = {length}, MiB beyond inputs"] = json.loads(found.stdout)
    return Report("memory", machine(), [], numbers)


ENTRY = run
