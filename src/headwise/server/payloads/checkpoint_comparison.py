"""The comparison of two checkpoints of one architecture, head by head, as the page reads it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwise.analysis.checkpoints.change_verdict import Thresholds
from headwise.analysis.checkpoints.compare import compared

if TYPE_CHECKING:
    import xarray as xr

    from headwise.models.model import Model


def compare_checkpoints(base: "Model", tuned: "Model", text: str | None) -> dict[str, Any]:
    """The numbers and verdict of every head, by part, as `hw.compare` gives them.

    Args:
        text: both models are also run on it; None compares the weights only.
    """
    datasets = compared(base, tuned, text)
    parts = {name: _part(dataset) for name, dataset in datasets.items()}
    return {"base": base.name, "tuned": tuned.name, "thresholds": asdict(Thresholds()), "parts": parts}


def _part(dataset: "xr.Dataset") -> dict[str, Any]:
    numbers = [name for name in dataset.data_vars if name not in ("verdict", "evidence")]
    return {
        "layers": dataset.sizes["layer"],
        "heads": dataset.sizes["head"],
        "variables": {name: {"statement": dataset[name].attrs.get("long_name", ""), "values": dataset[name].values.tolist()} for name in numbers},
        "verdict": dataset.verdict.values.tolist(),
        "evidence": dataset.evidence.values.tolist(),
        "notes": list(dataset.attrs["notes"]),
    }
