"""The inputs that laws are tried on: small, with every axis of another length, and none on which a fault cannot be seen.

A fault hides where axes have length 1 or the same length, where G is 1 or H, where scores are moderate, the scale is the
usual one, the window is longer than the text, or matrices are symmetric: the witness below avoids them all at once.
"""

from functools import lru_cache
from itertools import combinations

import torch

from headwise.attention.layer import LayerParams
from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.axes import Bool, Tensor
from headwise.conformance.invariants.law import Level
from headwise.conformance.oracles.tolerance import normal
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem


def problem(
    batch: int = 2, heads: int = 4, groups: int = 2, queries: int = 3, keys: int = 5, width: int = 4, wide: int = 3, seed: int = 0, **options
) -> Problem:
    """Random numbers of these sizes, which are the witness's where nothing is said."""
    q = normal(batch, heads, queries, width, seed=3 * seed + 1)
    k = normal(batch, groups, keys, width, seed=3 * seed + 2)
    return Problem(q, k, normal(batch, groups, keys, wide, seed=3 * seed + 3), **options)


def lengths(keys: int, *valid: int) -> Bool[Tensor, "B 1 1 S"]:
    """The mask of a batch whose texts have so many real tokens, padded at the end."""
    return (torch.arange(keys) < torch.tensor(valid)[:, None])[:, None, None]


def scattered(*shape: int, seed: int = 0) -> Bool[Tensor, "..."]:
    """A mask without any order: 7 in 10 are seen, and key 0 always."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.7
    mask[..., 0] = True
    return mask


@lru_cache
def witnesses() -> dict[str, Problem]:
    """The safe witness in each of its settings."""
    padding = {"mask": lengths(5, 5, 2)}
    everything = {**padding, "causal": True, "window": 3, "softcap": 2.0, "scale": 0.3, "bias": normal(4, 3, 5, seed=8), "sink": normal(4, seed=9)}
    settings = {
        "plain": {},
        "padding": padding,
        "causal": {**padding, "causal": True},
        "window": {**padding, "causal": True, "window": 3},
        "everything": everything,
        "negative scale": {"causal": True, "scale": -0.5},
        "mask by head": {"mask": scattered(2, 4, 3, 5)},
        "window without mask": {"causal": True, "window": 2},
    }
    return {name: problem(**options) for name, options in settings.items()}


@lru_cache
def sizes() -> dict[str, Problem]:
    """Other sizes: square, one token, more queries than keys, other groups, long."""
    return {
        "square": problem(queries=5, causal=True, seed=1),
        "one query": problem(queries=1, causal=True, seed=2),
        "more queries than keys": problem(queries=5, keys=2, causal=True, seed=3),
        "eight heads": problem(heads=8, groups=4, seed=4),
        "one batch row": problem(batch=1, heads=3, groups=3, queries=4, keys=7, causal=True, scale=0.7, seed=5),
        "one head": problem(batch=3, heads=1, groups=1, queries=2, keys=3, seed=6, mask=lengths(3, 3, 1, 2)),
    }


@lru_cache
def odd_ones() -> dict[str, Problem]:
    """Offsets, two-sided windows, planes that broadcast, single options, lengths past a block of 64 or 32."""
    return {
        "offset": problem(causal=True, query_offset=1, seed=7),
        "offset a row": problem(causal=True, window=2, query_offset=[0, 3], seed=8),
        "offset as a tensor": problem(causal=True, query_offset=torch.tensor([2, 1]), seed=9),
        "window of two sides": problem(queries=5, window=(1, 1), seed=10),
        "window far behind": problem(queries=5, keys=7, window=(2, None), seed=11),
        "bias": problem(bias=normal(4, 3, 5, seed=12), seed=12),
        "bias of one row": problem(bias=normal(1, 5, seed=13), seed=13),
        "mask for all": problem(mask=scattered(3, 5, seed=14), seed=14),
        "mask a row": problem(mask=scattered(2, 1, 3, 5, seed=15), seed=15),
        "sink": problem(sink=normal(4, seed=16), seed=16),
        "softcap": problem(softcap=1.5, scale=1.0, seed=17),
        "scale 0": problem(scale=0.0, causal=True, seed=18),
        "long": problem(heads=2, groups=1, queries=70, keys=97, causal=True, seed=19),
        "long and loose": problem(batch=3, heads=2, groups=2, queries=3, keys=130, width=8, wide=5, mask=lengths(130, 130, 66, 7), seed=20),
        "33 keys": problem(heads=2, groups=1, queries=2, keys=33, seed=21),
        "six heads, two groups": problem(heads=6, groups=2, window=4, causal=True, queries=7, keys=7, seed=22),
        "six heads, three groups": problem(batch=5, heads=6, groups=3, queries=2, keys=4, width=5, wide=2, causal=True, scale=-1.3, seed=23),
        "width 1": problem(width=1, wide=2, seed=24, softcap=3.0, causal=True),
        "one of all": problem(1, 1, 1, 1, 1, 1, 1, seed=25),
        "many rows": problem(batch=33, heads=2, groups=1, queries=1, keys=4, mask=scattered(33, 1, 1, 4, seed=26), seed=26),
    }


@lru_cache
def large() -> dict[str, Problem]:
    """Where kernels take another way: exactly a block of keys and past it, wide heads, many heads, many rows, numbers of another size. Few of all else."""
    few = {"batch": 1, "heads": 2, "groups": 1}
    narrow = {**few, "queries": 2, "keys": 3}
    loud, plain = problem(**few, keys=6, softcap=50.0, seed=136), witnesses()["plain"]
    return {
        "300 tokens": problem(**few, queries=300, keys=300, causal=True, seed=131),
        **{f"square of {n}": problem(**few, queries=n, keys=n, causal=True, seed=1000 + n) for n in (32, 64, 128)},
        **{f"{n} keys": problem(**few, queries=2, keys=n, seed=2000 + n) for n in (16, 64, 128, 256)},
        "a block unseen": problem(**few, queries=2, keys=200, mask=torch.arange(200) >= 130, seed=144),
        "513 keys": problem(**few, queries=1, keys=513, seed=132),
        "window of 20": problem(**few, queries=70, keys=70, causal=True, window=20, seed=133),
        **{f"width {n}": problem(**narrow, width=n, wide=n, seed=3000 + n) for n in (64, 80, 128, 256)},
        "32 heads": problem(batch=1, heads=32, groups=4, queries=2, seed=134),
        "nine rows": problem(batch=9, heads=2, groups=1, queries=2, mask=scattered(9, 1, 2, 5, seed=135), seed=135),
        "softcap of 50": loud.having(query=8 * loud.query, key=8 * loud.key),
        "many numbers": problem(batch=4, heads=4, groups=4, queries=16, keys=6, width=8, wide=8, seed=143),
        "large values": plain.having(value=plain.value * 2.0**20),
        "small values": plain.having(value=plain.value * 2.0**-30),
    }


@lru_cache
def pairs() -> tuple[Problem, ...]:
    """Every two options together, with one query and with several: neither may undo the other."""
    found = []
    for queries in (1, 4):
        shape = (2, 4, queries, 6)
        options = {
            "causal": {"causal": True},
            "query_offset": {"causal": True, "query_offset": 2},
            "window": {"window": 2},
            "mask": {"mask": scattered(*shape, seed=137)},
            "bias": {"bias": normal(*shape[1:], seed=138)},
            "scale": {"scale": -0.7},
            "softcap": {"softcap": 1.5},
            "sink": {"sink": normal(4, seed=139)},
        }
        both = [pair for pair in combinations(options, 2) if pair != ("causal", "query_offset")]  # which is what an offset alone is
        found += [problem(queries=queries, keys=6, seed=4000 + n, **options[one], **options[other]) for n, (one, other) in enumerate(both)]
    return tuple(found)


def settings(level: Level) -> list[Problem]:
    """What most laws are tried on; those that say the least beside the others are left out of the quick level."""
    some = {**witnesses(), **sizes()}
    few = {name: entry for name, entry in some.items() if name not in ("padding", "causal", "one query", "one batch row", "one head")}
    return [*(few if level == "quick" else {**some, **odd_ones()}).values()]


def params(
    model: int = 8, heads: int = 4, groups: int = 2, width: int = 2, wide: int = 3, context: int | None = None, seed: int = 0, sink: bool = False
) -> LayerParams:
    """The maps of a layer, random."""
    context = model if context is None else context
    shapes = {"w_q": (model, heads, width), "w_k": (context, groups, width), "w_v": (context, groups, wide), "w_o": (heads, wide, model)}
    shapes |= {"b_q": (heads, width), "b_k": (groups, width), "b_v": (groups, wide), "b_o": (model,)}
    shapes |= {"sink": (heads,)} if sink else {}
    return LayerParams(**{name: normal(*shape, seed=20 * seed + n) * 0.7 for n, (name, shape) in enumerate(shapes.items(), 1)})


def layer(batch: int = 2, tokens: int = 5, seed: int = 0, context: int | None = None, sizes: dict | None = None, sink: bool = False, **options) -> LayerProblem:
    """x of these sizes and random maps; `context` is the length of what x looks at, where not at itself."""
    maps = params(**(sizes or {}), seed=seed, sink=sink, context=None if context is None else 6)
    looked_at = None if context is None else normal(batch, context, 6, seed=20 * seed + 19)
    return LayerProblem(normal(batch, tokens, maps.w_q.shape[0], seed=20 * seed + 18), maps, looked_at, **options)


@lru_cache
def layers() -> dict[str, LayerProblem]:
    """The layer in its settings."""
    everything = {"causal": True, "window": 3, "softcap": 2.0, "scale": 0.6, "mask": lengths(5, 5, 3), "bias": normal(4, 5, 5, seed=77), "sink": True}
    return {
        "plain": layer(),
        "padding": layer(mask=lengths(5, 5, 3), seed=1),
        "causal": layer(causal=True, seed=2),
        "everything": layer(seed=3, **everything),
        "looking elsewhere": layer(tokens=3, context=4, seed=4),
        "rotary": layer(causal=True, position=Rotary(), sizes={"width": 4}, seed=5),
        "alibi": layer(position=Alibi(), sizes={"heads": 6, "groups": 3}, seed=6),
        "buckets": layer(position=RelativeBuckets(normal(8, 4, seed=78), max_distance=6), seed=7),
        "in chunks": layer(causal=True, chunks=(2, 1, 1, 1), seed=8),
        "rotary in chunks": layer(causal=True, position=Rotary(base=100.0, pairing="neighbours"), chunks=(1, 3, 1), sizes={"width": 4}, seed=9),
        "padding in chunks": layer(causal=True, mask=lengths(5, 5, 2), chunks=(3, 1, 1), position=Alibi(), seed=10),
        "one head": layer(sizes={"heads": 1, "groups": 1, "width": 8}, seed=11),
        "long": layer(batch=1, tokens=40, causal=True, seed=12),
    }


def layer_settings(level: Level) -> list[LayerProblem]:
    """What most laws are tried on, of layers."""
    out = ("long", "padding", "causal", "in chunks", "one head") if level == "quick" else ("long",)
    return [entry for name, entry in layers().items() if name not in out]
