"""Is a model with more heads harder to silence: the same share of heads removed at random, from the models that the claim about more heads is about."""

from collections.abc import Mapping
from typing import Any

from headwise.experiments.card import Number
from headwise.experiments.estimates.confidence_interval import side_of
from headwise.experiments.estimates.seed_interval import mean_over_seeds
from headwise.experiments.number_text import nats
from headwise.experiments.trained.stored_results import path_of, read

SHARE = 0.5  # of the heads: there for every number of them
DIFFERENCE = "removed, most heads less fewest"


def removal_numbers() -> dict[str, Number]:
    """By how much the loss of each of these models rises; nothing where they were not trained."""
    return loss_increases(read("more_heads")) if path_of("more_heads").exists() else {}


def loss_increases(found: Mapping[str, Any]) -> dict[str, Number]:
    """For each number of heads the mean rise over draws, with its interval over trainings; and the most heads less the fewest, training by training."""
    by: dict[int, dict[int, float]] = {}
    for model in found["models"]:
        for one in model.get("removed", ()):
            if one["share"] == SHARE:
                by.setdefault(model["heads"], {})[model["seed"]] = sum(one["losses"]) / len(one["losses"])
    by = {heads: rises for heads, rises in sorted(by.items()) if len(rises) > 1}
    if len(by) < 2:
        return {}
    means = f"rise of the loss of a model with so many heads, {SHARE:.0%} of them removed at random; interval over trainings"
    numbers = {f"removed, h = {heads}": mean_over_seeds(list(rises.values()), means, "nats a letter") for heads, rises in by.items()}
    few, many = by[min(by)], by[max(by)]
    apart = [many[seed] - few[seed] for seed in sorted(few.keys() & many.keys())]
    return numbers | ({DIFFERENCE: mean_over_seeds(apart, f"h = {max(by)} less h = {min(by)}", "nats a letter")} if len(apart) > 1 else {})


def removal_sentence(numbers: Mapping[str, Number]) -> str:
    """What it says of “more heads make a model harder to silence”."""
    if DIFFERENCE not in numbers:
        return "Whether more heads make a model harder to silence can't be told: no models trained with fewer and more heads are there."
    apart = numbers[DIFFERENCE]
    rises = {int(name.rpartition(" ")[2]): number for name, number in numbers.items() if name.startswith("removed, h")}
    few, many = min(rises), max(rises)
    verdict = {"below": "harder to silence", "above": "easier to silence", "unsure": "no certain difference"}[side_of(apart, 0.0)]
    both = f"{nats(rises[few].value)} nats with {few} head{'s' if few > 1 else ''} a layer and {nats(rises[many].value)} with {many}"
    return f"In small models trained for it, half of the heads removed at random cost {both}: with more heads {verdict}."
