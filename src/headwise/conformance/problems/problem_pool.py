"""The problems that invariants are tried on: small, with axes of different lengths, chosen so that faults show.

A fault stays invisible where axes have length 1 or equal lengths, where G is 1 or H, where scores are moderate, the scale is the default, the window is longer
than the sequence, or matrices are symmetric. The core problems avoid all of these at once.
"""

from functools import lru_cache
from itertools import combinations
from typing import Any

import torch

from headwise.attention.layer import LayerParams
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.axes import Bool, Tensor
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.random_tensors import random_normal


def make_problem(
    batch: int = 2,
    heads: int = 4,
    groups: int = 2,
    queries: int = 3,
    keys: int = 5,
    head_dim: int = 4,
    value_dim: int = 3,
    seed: int = 0,
    **options: Any,
) -> Problem:
    """Random tensors of these sizes."""
    q = random_normal(batch, heads, queries, head_dim, seed=3 * seed + 1)
    k = random_normal(batch, groups, keys, head_dim, seed=3 * seed + 2)
    return Problem(q, k, random_normal(batch, groups, keys, value_dim, seed=3 * seed + 3), **options)


def padding_mask(keys: int, *valid: int) -> Bool[Tensor, "B 1 1 S"]:
    """The mask of a batch of sequences with this many valid tokens each, padded on the right."""
    return (torch.arange(keys) < torch.tensor(valid)[:, None])[:, None, None]


def scattered_mask(*shape: int, seed: int = 0) -> Bool[Tensor, "..."]:
    """A random mask: 7 in 10 keys are visible, and key 0 always."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.7
    mask[..., 0] = True
    return mask


@lru_cache
def core_problems() -> dict[str, Problem]:
    """The sizes on which most faults show, with each setting."""
    padding = {"mask": padding_mask(5, 5, 2)}
    everything = {
        **padding,
        "causal": True,
        "window": 3,
        "softcap": 2.0,
        "scale": 0.3,
        "bias": random_normal(4, 3, 5, seed=8),
        "sink": random_normal(4, seed=9),
    }
    settings = {
        "plain": {},
        "padding": padding,
        "causal": {**padding, "causal": True},
        "window": {**padding, "causal": True, "window": 3},
        "everything": everything,
        "negative scale": {"causal": True, "scale": -0.5},
        "mask by head": {"mask": scattered_mask(2, 4, 3, 5)},
        "window without mask": {"causal": True, "window": 2},
    }
    return {name: make_problem(**options) for name, options in settings.items()}


@lru_cache
def size_problems() -> dict[str, Problem]:
    """Other sizes: square, one query, more queries than keys, more heads, one sample, one head."""
    return {
        "square": make_problem(queries=5, causal=True, seed=1),
        "one query": make_problem(queries=1, causal=True, seed=2),
        "more queries than keys": make_problem(queries=5, keys=2, causal=True, seed=3),
        "eight heads": make_problem(heads=8, groups=4, seed=4),
        "one sample": make_problem(batch=1, heads=3, groups=3, queries=4, keys=7, causal=True, scale=0.7, seed=5),
        "one head": make_problem(batch=3, heads=1, groups=1, queries=2, keys=3, seed=6, mask=padding_mask(3, 3, 1, 2)),
    }


@lru_cache
def option_problems() -> dict[str, Problem]:
    """Offsets, two-sided windows, broadcast masks and biases, single options, lengths past a block of 32 or 64 keys."""
    return {
        "offset": make_problem(causal=True, query_offset=1, seed=7),
        "offset per row": make_problem(causal=True, window=2, query_offset=[0, 3], seed=8),
        "offset as a tensor": make_problem(causal=True, query_offset=torch.tensor([2, 1]), seed=9),
        "two-sided window": make_problem(queries=5, window=(1, 1), seed=10),
        "window without right bound": make_problem(queries=5, keys=7, window=(2, None), seed=11),
        "bias": make_problem(bias=random_normal(4, 3, 5, seed=12), seed=12),
        "bias of one row": make_problem(bias=random_normal(1, 5, seed=13), seed=13),
        "mask without batch": make_problem(mask=scattered_mask(3, 5, seed=14), seed=14),
        "mask per sample": make_problem(mask=scattered_mask(2, 1, 3, 5, seed=15), seed=15),
        "sink": make_problem(sink=random_normal(4, seed=16), seed=16),
        "softcap": make_problem(softcap=1.5, scale=1.0, seed=17),
        "scale 0": make_problem(scale=0.0, causal=True, seed=18),
        "long": make_problem(heads=2, groups=1, queries=70, keys=97, causal=True, seed=19),
        "130 keys": make_problem(batch=3, heads=2, groups=2, queries=3, keys=130, head_dim=8, value_dim=5, mask=padding_mask(130, 130, 66, 7), seed=20),
        "33 keys": make_problem(heads=2, groups=1, queries=2, keys=33, seed=21),
        "six heads, two groups": make_problem(heads=6, groups=2, window=4, causal=True, queries=7, keys=7, seed=22),
        "six heads, three groups": make_problem(batch=5, heads=6, groups=3, queries=2, keys=4, head_dim=5, value_dim=2, causal=True, scale=-1.3, seed=23),
        "head_dim 1": make_problem(head_dim=1, value_dim=2, seed=24, softcap=3.0, causal=True),
        "all sizes 1": make_problem(1, 1, 1, 1, 1, 1, 1, seed=25),
        "33 samples": make_problem(batch=33, heads=2, groups=1, queries=1, keys=4, mask=scattered_mask(33, 1, 1, 4, seed=26), seed=26),
    }


@lru_cache
def large_problems() -> dict[str, Problem]:
    """Sizes at which kernels take another path: exactly one block of keys and more, wide heads, many heads, many samples, very large and small values."""
    small = {"batch": 1, "heads": 2, "groups": 1}
    narrow = {**small, "queries": 2, "keys": 3}
    capped, plain = make_problem(**small, keys=6, softcap=50.0, seed=136), core_problems()["plain"]
    return {
        "300 tokens": make_problem(**small, queries=300, keys=300, causal=True, seed=131),
        **{f"{n} x {n}": make_problem(**small, queries=n, keys=n, causal=True, seed=1000 + n) for n in (32, 64, 128)},
        **{f"{n} keys": make_problem(**small, queries=2, keys=n, seed=2000 + n) for n in (16, 64, 128, 256)},
        "a hidden block": make_problem(**small, queries=2, keys=200, mask=torch.arange(200) >= 130, seed=144),
        "513 keys": make_problem(**small, queries=1, keys=513, seed=132),
        "window of 20 on 70 tokens": make_problem(**small, queries=70, keys=70, causal=True, window=20, seed=133),
        **{f"head_dim {n}": make_problem(**narrow, head_dim=n, value_dim=n, seed=3000 + n) for n in (64, 80, 128, 256)},
        "32 heads": make_problem(batch=1, heads=32, groups=4, queries=2, seed=134),
        "nine samples": make_problem(batch=9, heads=2, groups=1, queries=2, mask=scattered_mask(9, 1, 2, 5, seed=135), seed=135),
        "softcap of 50": capped.replace(query=8 * capped.query, key=8 * capped.key),
        "many heads and queries": make_problem(batch=4, heads=4, groups=4, queries=16, keys=6, head_dim=8, value_dim=8, seed=143),
        "large values": plain.replace(value=plain.value * 2.0**20),
        "small values": plain.replace(value=plain.value * 2.0**-30),
    }


@lru_cache
def option_pairs() -> tuple[Problem, ...]:
    """Every pair of options, with one query and with several."""
    found = []
    for queries in (1, 4):
        shape = (2, 4, queries, 6)
        options = {
            "causal": {"causal": True},
            "query_offset": {"causal": True, "query_offset": 2},
            "window": {"window": 2},
            "mask": {"mask": scattered_mask(*shape, seed=137)},
            "bias": {"bias": random_normal(*shape[1:], seed=138)},
            "scale": {"scale": -0.7},
            "softcap": {"softcap": 1.5},
            "sink": {"sink": random_normal(4, seed=139)},
        }
        pairs = [pair for pair in combinations(options, 2) if pair != ("causal", "query_offset")]  # the option query_offset is causal already
        found += [make_problem(queries=queries, keys=6, seed=4000 + n, **options[one], **options[other]) for n, (one, other) in enumerate(pairs)]
    return tuple(found)


def standard_problems(level: CheckLevel) -> list[Problem]:
    """The problems of most invariants; the quick level leaves out those that add the least."""
    some = {**core_problems(), **size_problems()}
    few = {name: entry for name, entry in some.items() if name not in ("padding", "causal", "one query", "one sample", "one head")}
    return [*(few if level == "quick" else {**some, **option_problems()}).values()]


def random_weights(
    d_model: int = 8,
    heads: int = 4,
    groups: int = 2,
    head_dim: int = 2,
    value_dim: int = 3,
    d_context: int | None = None,
    seed: int = 0,
    sink: bool = False,
) -> LayerParams:
    """Random parameters of a layer of these sizes."""
    d_context = d_model if d_context is None else d_context
    shapes = {
        "w_q": (d_model, heads, head_dim),
        "w_k": (d_context, groups, head_dim),
        "w_v": (d_context, groups, value_dim),
        "w_o": (heads, value_dim, d_model),
    }
    shapes |= {"b_q": (heads, head_dim), "b_k": (groups, head_dim), "b_v": (groups, value_dim), "b_o": (d_model,)}
    shapes |= {"sink": (heads,)} if sink else {}
    return LayerParams(**{name: random_normal(*shape, seed=20 * seed + n) * 0.7 for n, (name, shape) in enumerate(shapes.items(), 1)})


def make_layer_problem(
    batch: int = 2, tokens: int = 5, seed: int = 0, context: int | None = None, sizes: dict[str, int] | None = None, sink: bool = False, **options: Any
) -> LayerProblem:
    """Random x and parameters.

    Args:
        context: number of tokens of the context in cross-attention; None for self-attention.
        sizes: arguments of `random_weights`.
    """
    parameters = random_weights(**(sizes or {}), seed=seed, sink=sink, d_context=None if context is None else 6)
    tokens_of_context = None if context is None else random_normal(batch, context, 6, seed=20 * seed + 19)
    return LayerProblem(random_normal(batch, tokens, parameters.w_q.shape[0], seed=20 * seed + 18), parameters, tokens_of_context, **options)


@lru_cache
def layer_problems() -> dict[str, LayerProblem]:
    """Layers with each setting."""
    everything = {
        "causal": True,
        "window": 3,
        "softcap": 2.0,
        "scale": 0.6,
        "mask": padding_mask(5, 5, 3),
        "bias": random_normal(4, 5, 5, seed=77),
        "sink": True,
    }
    return {
        "plain": make_layer_problem(),
        "padding": make_layer_problem(mask=padding_mask(5, 5, 3), seed=1),
        "causal": make_layer_problem(causal=True, seed=2),
        "everything": make_layer_problem(seed=3, **everything),
        "cross-attention": make_layer_problem(tokens=3, context=4, seed=4),
        "rotary": make_layer_problem(causal=True, position=Rotary(), sizes={"head_dim": 4}, seed=5),
        "alibi": make_layer_problem(position=Alibi(), sizes={"heads": 6, "groups": 3}, seed=6),
        "buckets": make_layer_problem(position=RelativeBuckets(random_normal(8, 4, seed=78), max_distance=6), seed=7),
        "in chunks": make_layer_problem(causal=True, chunks=(2, 1, 1, 1), seed=8),
        "rotary in chunks": make_layer_problem(causal=True, position=Rotary(base=100.0, pairing="neighbours"), chunks=(1, 3, 1), sizes={"head_dim": 4}, seed=9),
        "padding in chunks": make_layer_problem(causal=True, mask=padding_mask(5, 5, 2), chunks=(3, 1, 1), position=Alibi(), seed=10),
        "one head": make_layer_problem(sizes={"heads": 1, "groups": 1, "head_dim": 8}, seed=11),
        "long": make_layer_problem(batch=1, tokens=40, causal=True, seed=12),
    }


def standard_layer_problems(level: CheckLevel) -> list[LayerProblem]:
    """The layer problems of most invariants."""
    out = ("long", "padding", "causal", "in chunks", "one head") if level == "quick" else ("long",)
    return [entry for name, entry in layer_problems().items() if name not in out]
