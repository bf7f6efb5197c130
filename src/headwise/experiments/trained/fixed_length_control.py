"""The negative control of induction: a decoder trained on repeats of a fixed length against one trained on lengths drawn anew."""

from collections.abc import Mapping

from headwise.experiments.card import Number
from headwise.experiments.estimates.seed_interval import mean_over_seeds
from headwise.experiments.trained import stored_results as results


def control() -> Mapping[str, Number]:
    """For each way of training, the loss on what can be foretold, at the length that the control was trained on and at others; and where its heads look.

    Example:
        >>> found = control()
        >>> found["fixed, other lengths"].value > found["random, other lengths"].value
        True
    """
    found = results.read("repeats")
    fixed = found["settings"]["fixed"]
    numbers = {}
    for kind, words in (("fixed", "fixed"), ("drawn", "random")):
        models = [model["by_length"] for model in found["models"] if model["kind"] == kind]
        for name, chosen in (("same length", {fixed}), ("other lengths", {row["length"] for row in models[0]} - {fixed})):
            for key, suffix, means, unit in (
                ("loss", "", f"loss on foretold tokens; {found['chance']:.2f} by guessing", "nats"),
                ("induction", ", weight", "largest mean weight of a head on the token behind the earlier self", "share"),
            ):
                values = [sum(row[key] for row in rows if row["length"] in chosen) / len(chosen) for rows in models]
                numbers[f"{words}, {name}{suffix}"] = mean_over_seeds(values, means, unit)
    return numbers
