"""The negative control of induction: a decoder trained on repeats of a fixed length, compared with one trained on random lengths."""

from collections.abc import Mapping

from headwise.experiments.card import Number
from headwise.experiments.estimates.seed_interval import mean_over_seeds
from headwise.experiments.trained import stored_results as results


def control() -> Mapping[str, Number]:
    """For each training regime, the loss on predictable tokens and the induction weight of its heads, at the control's training length and at other lengths.

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
                ("loss", "", f"loss on predictable tokens; {found['chance']:.2f} by chance", "nats"),
                ("induction", ", weight", "largest mean weight of a head on the token after the previous occurrence", "share"),
            ):
                values = [sum(row[key] for row in rows if row["length"] in chosen) / len(chosen) for rows in models]
                numbers[f"{words}, {name}{suffix}"] = mean_over_seeds(values, means, unit)
    return numbers
