"""How time and memory of one attention grow with the length, on this machine: in turn, so that a busy machine slows all alike.

y ≈ c · T^a        a: slope of log y over log T, least squares, one for each round
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import einsum
from torch.nn.functional import scaled_dot_product_attention

from headwise.attention.attend import attend
from headwise.axes import Key, Output, Query, Tensor, Value
from headwise.progress import ProgressCallback, no_progress

LENGTHS = (512, 1024, 2048, 4096)  # tokens
ROUNDS = 5
WINDOW = 256  # tokens of the way that sees no more
AttentionFunction = Callable[[Query, Key, Value], object]


@dataclass(frozen=True)
class Shape:
    """What is computed: heads, and numbers of each; whether a query sees what comes after it."""

    heads: int
    width: int
    causal: bool


def implementations(causal: bool) -> Mapping[str, AttentionFunction]:
    """The ways in which it is computed, by name."""
    window = WINDOW if causal else (WINDOW - 1, WINDOW - 1)
    return {
        "eager": lambda q, k, v: eager(q, k, v, causal),
        "fused": lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=causal),
        "headwise": lambda q, k, v: attend(q, k, v, causal=causal, statistics="all"),
        "headwise, window": lambda q, k, v: attend(q, k, v, causal=causal, window=window, statistics="all"),
    }


def eager(query: Query, key: Key, value: Value, causal: bool) -> Output:
    """Attention by its definition: scores, softmax and product, each a tensor of its own.

    Example:
        >>> x = torch.randn(1, 2, 5, 4)
        >>> bool((eager(x, x, x, True) - attend(x, x, x, causal=True).output).abs().max() < 1e-5)
        True
    """
    scores = einsum("bhtd,bhsd->bhts", query, key) * query.shape[-1] ** -0.5
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return einsum("bhts,bhse->bhte", scores.softmax(-1), value)


def random_inputs(shape: Shape, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value at random."""
    generator = torch.Generator().manual_seed(length)
    query, key, value = torch.randn(3, 1, shape.heads, length, shape.width, generator=generator)
    return query, key, value


def seconds(shape: Shape, lengths: Sequence[int] = LENGTHS, rounds: int = ROUNDS, progress: ProgressCallback = no_progress) -> dict[str, list[list[float]]]:
    """Seconds of each way: by round, then by length. One round more comes first and does not count."""
    every = implementations(shape.causal)
    found: dict[str, list[list[float]]] = {name: [[0.0] * len(lengths) for _ in range(rounds)] for name in every}
    for place, length in enumerate(lengths):
        inputs = random_inputs(shape, length)
        for round_ in range(-1, rounds):
            gc.collect()
            names = list(every) if round_ % 2 else list(every)[::-1]
            for name in names:
                start = time.perf_counter()
                every[name](*inputs)
                if round_ >= 0:
                    found[name][round_][place] = time.perf_counter() - start
        progress("timing attention", place + 1, len(lengths))
    return found


def exponent(lengths: Sequence[int], sizes: Sequence[float]) -> float:
    """a of the least squares fit of c · T^a.

    Example:
        >>> round(exponent([10, 20, 40], [3.0, 12.0, 48.0]), 6)
        2.0
    """
    x, y = [log(length) for length in lengths], [log(size) for size in sizes]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
