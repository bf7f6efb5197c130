"""The robustness of models with fewer and more heads to removing the same share of them at random, on the models of the claim about more heads."""

from collections.abc import Mapping
from typing import Any

from headwise.experiments.card import Number
from headwise.experiments.estimates.confidence_interval import side_of
from headwise.experiments.estimates.seed_interval import mean_over_seeds
from headwise.experiments.number_text import nats
from headwise.experiments.trained.stored_results import path_of, read

SHARE = 0.5  # of the heads removed; measured for every number of heads
DIFFERENCE = "removed, most heads less fewest"


def removal_numbers() -> dict[str, Number]:
    """The increase in loss of each of these models; empty if they were not trained."""
    return loss_increases(read("more_heads")) if path_of("more_heads").exists() else {}


def loss_increases(found: Mapping[str, Any]) -> dict[str, Number]:
    """For each number of heads, the mean increase over draws with its interval over training runs; and the paired difference between most and fewest heads."""
    by: dict[int, dict[int, float]] = {}
    for model in found["models"]:
        for one in model.get("removed", ()):
            if one["share"] == SHARE:
                by.setdefault(model["heads"], {})[model["seed"]] = sum(one["losses"]) / len(one["losses"])
    by = {heads: rises for heads, rises in sorted(by.items()) if len(rises) > 1}
    if len(by) < 2:
        return {}
    means = f"increase in loss of a model with that many heads, {SHARE:.0%} of them removed at random; interval over training runs"
    numbers = {f"removed, h = {heads}": mean_over_seeds(list(rises.values()), means, "nats a letter") for heads, rises in by.items()}
    few, many = by[min(by)], by[max(by)]
    apart = [many[seed] - few[seed] for seed in sorted(few.keys() & many.keys())]
    return numbers | ({DIFFERENCE: mean_over_seeds(apart, f"h = {max(by)} minus h = {min(by)}", "nats a letter")} if len(apart) > 1 else {})


def removal_sentence(numbers: Mapping[str, Number]) -> str:
    """A sentence on whether more heads make a model harder to silence."""
    if DIFFERENCE not in numbers:
        return "Whether more heads make a model harder to silence is not known: no models trained with fewer and more heads are available."
    apart = numbers[DIFFERENCE]
    rises = {int(name.rpartition(" ")[2]): number for name, number in numbers.items() if name.startswith("removed, h")}
    few, many = min(rises), max(rises)
    verdict = {"below": "harder to silence", "above": "easier to silence", "unsure": "no certain difference"}[side_of(apart, 0.0)]
    both = f"{nats(rises[few].value)} nats with {few} head{'s' if few > 1 else ''} a layer and {nats(rises[many].value)} with {many}"
    return f"In small models trained for this, removing half of the heads at random costs {both}; with more heads: {verdict}."
