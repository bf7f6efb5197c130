"""The verdicts on all roles as one Dataset over (task, layer, head)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.analysis.intervals import Interval
from headwise.analysis.roles.role_verdict import RoleVerdict, sure
from headwise.axes import Bool, Float, Tensor

if TYPE_CHECKING:
    import xarray

NONE = "none"


def role_dataset(verdicts: Mapping[str, tuple[str, RoleVerdict]], layers: Sequence[str], margin: float) -> "xarray.Dataset":
    """The Dataset that `hw.roles` returns.

    Args:
        verdicts: by task, with the role that it belongs to.
        layers: names of the modules.
    """
    import xarray

    all_of = [verdict for _, verdict in verdicts.values()]
    by_head = ("task", "layer", "head")
    variables = {
        **_interval("score", by_head, [verdict.score for verdict in all_of], bare=True),
        **_interval("gain", by_head, [verdict.gain for verdict in all_of]),
        **_interval("held", ("task",), [verdict.held for verdict in all_of]),
        **_interval("baseline", ("task",), [verdict.held_baseline for verdict in all_of]),
        **_interval("held_gain", ("task",), [verdict.held_gain for verdict in all_of]),
        "found": ("task", [verdict.found for verdict in all_of]),
        "best_layer": ("task", [verdict.best[0] for verdict in all_of]),
        "best_head": ("task", [verdict.best[1] for verdict in all_of]),
        "rule": ("task", [verdict.baseline for verdict in all_of]),
        "texts": ("task", [verdict.texts for verdict in all_of]),
        "questions": ("task", [verdict.questions for verdict in all_of]),
        "role": (("layer", "head"), _labels(list(verdicts), all_of, margin)),
    }
    heads = all_of[0].score.mean.shape[1]
    coords = {"task": list(verdicts), "layer": range(len(layers)), "head": range(heads), "layer_name": ("layer", list(layers))}
    coords["of_role"] = ("task", [role for role, _ in verdicts.values()])
    return xarray.Dataset(variables, coords)


def _interval(name: str, dims: tuple[str, ...], found: Sequence[Interval], bare: bool = False) -> dict[str, tuple]:
    """The mean and its two ends; those of the score go without its name."""
    ends = {name: "mean", "low" if bare else f"{name}_low": "low", "high" if bare else f"{name}_high": "high"}
    return {key: (dims, np.stack([getattr(interval, attribute).numpy() for interval in found])) for key, attribute in ends.items()}


def _labels(tasks: Sequence[str], verdicts: Sequence[RoleVerdict], margin: float) -> np.ndarray:
    """For each head the task in which it leads by most, where that is certain; all heads and tasks are looked at at once."""
    looked_at = len(verdicts) * verdicts[0].gain.mean.numel()
    certain: Bool[Tensor, "n L H"] = torch.stack([sure(verdict.gain, looked_at, margin) for verdict in verdicts])
    lead: Float[Tensor, "n L H"] = torch.stack([verdict.gain.mean for verdict in verdicts]).masked_fill(~certain, -torch.inf)
    names = np.array([*tasks, NONE], dtype=object)
    return names[torch.where(certain.any(0), lead.argmax(0), len(tasks)).numpy()]
