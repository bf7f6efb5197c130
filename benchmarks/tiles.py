"""Pictures of the map of weights: one 256 x 256 tile, from a single leaf to the overview of 32,768 tokens."""

import torch

from benchmarks.pairs import Report, machine, paired
from headwise.attention.attend import attend, make_call
from headwise.attention.call import MapRegion
from headwise.attention.weights import pooled_in_torch, pooled_weights


def run(quick: bool) -> Report:
    """The fastest kernel against the same in torch. Goals: a leaf in 5 ms, the overview of a causal head in 2 s."""
    length = 4096 if quick else 32768
    query, key = torch.randn(2, 1, 1, length, 64, generator=torch.Generator().manual_seed(0))
    call = make_call(query, key, causal=True)
    lse = attend(query, key, key, causal=True).lse
    whole, cell = slice(0, length), length // 256
    areas = {
        "a leaf": MapRegion(slice(length // 2, length // 2 + 256), slice(length // 4, length // 4 + 256)),
        "the overview, largest weights": MapRegion(whole, whole, cell),
        "the overview, mean weights": MapRegion(whole, whole, cell, mean=True),
    }
    pairs = [
        paired(
            f"{name}, T = {length}",
            lambda area=area: pooled_weights(query, key, lse, call, area),
            lambda area=area: pooled_in_torch(query, key, lse, call, area),
            peer_name="torch in strips",
            rounds=9 if area.cell == 1 else 2,
        )
        for name, area in areas.items()
    ]
    return Report("tiles", machine(), pairs, {f"{pair.case}, ms": pair.ours_s * 1000 for pair in pairs})


ENTRY = run
