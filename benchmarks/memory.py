"""Peak memory of one attention at 32,768 tokens, and of runs over long texts; each in a process of its own."""

import json
import subprocess
import sys

from benchmarks.pairs import Report, machine

PROBE = """
import json, sys, torch
from benchmarks.peak import forget, peak
from torch.nn.functional import scaled_dot_product_attention
from headwise.attention.attend import attend
which, heads, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
query, key, value = (torch.randn(1, heads, length, 64) for _ in range(3))
warm = torch.randn(1, heads, 64, 64)
run = {
    "sdpa": lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True),
    "stream": lambda q, k, v: attend(q, k, v, causal=True, statistics="all", backend="stream"),
    "default": lambda q, k, v: attend(q, k, v, causal=True, statistics="all"),
}[which]
run(warm, warm, warm)
before = forget()
kept = run(query, key, value)
print(json.dumps(peak() - before))
"""

# A run keeps queries, keys, what W_O reads and one number a row; T5's bias by distance is kept by diagonal. Its T x S plane alone would be 4 · H · T² bytes.
MODEL = """
import json, sys, torch
from benchmarks.peak import forget, peak
import headwise as hw
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration
which, length = sys.argv[1], int(sys.argv[2])
small = dict(vocab_size=97, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
small |= dict(max_position_embeddings=1 << 15, pad_token_id=0, bos_token_id=1, eos_token_id=2)
torch.manual_seed(0)
hf = {
    "Llama": lambda: LlamaForCausalLM(LlamaConfig(**small)),
    "Gemma 2, a window of 512": lambda: Gemma2ForCausalLM(Gemma2Config(**small, sliding_window=512)),
    "T5": lambda: T5ForConditionalGeneration(T5Config(d_model=64, d_kv=16, d_ff=64, num_layers=2, num_heads=4, vocab_size=97)),
}[which]().eval()
model = hw.open_model(hf)
given = lambda n: {"input_ids": torch.randint(3, 97, (1, n))} | ({"decoder_input_ids": torch.randint(3, 97, (1, n))} if which == "T5" else {})
model.run(given(2048))
before = forget()
run = model.run(given(length))
run.weights(1, 3, slice(length - 1, length), part=next(iter(run.parts)))
print(json.dumps(peak() - before))
"""
MODELS = ("Llama", "Gemma 2, a window of 512", "T5")


def run(quick: bool) -> Report:
    """MiB that a causal call of 2 heads adds to its inputs (output, lse, statistics and working memory), and that runs of tiny models of 4 heads add.

    The latter are beyond a first run over 2,048 tokens. Were T x S planes made, 10,000 tokens would take four times what 5,000 take: 1,526 MiB for a bias.
    """
    heads, length = 2, 4096 if quick else 32768
    numbers = {}
    for which in ("sdpa", "stream", "default"):
        numbers[f"{which}, {heads} heads, T = {length}, MiB beyond inputs"] = _peak(PROBE, which, heads, length)
    for which in MODELS:
        for tokens in (3000,) if quick else (5000, 10000):
            numbers[f"a run of a tiny {which}, T = {tokens}, MiB"] = _peak(MODEL, which, tokens)
    return Report("memory", machine(), [], numbers)


def _peak(probe: str, *arguments: str | int) -> float:
    found = subprocess.run([sys.executable, "-c", probe, *map(str, arguments)], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


ENTRY = run
