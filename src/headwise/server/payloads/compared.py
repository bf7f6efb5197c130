"""What changed in each head between two models, as the page reads it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwise.analysis.checkpoints.change_verdict import Thresholds
from headwise.analysis.checkpoints.compare import compared as compare

if TYPE_CHECKING:
    from headwise.models.model import Model


def compared(base: "Model", tuned: "Model", text: str | None) -> dict[str, Any]:
    """Every head's numbers and verdict, by part: those of `hw.compare`.

    Args:
        text: on which both are run as well; None for weights alone.
    """
    found = compare(base, tuned, text)
    return {"base": base.name, "tuned": tuned.name, "thresholds": asdict(Thresholds()), "parts": {name: _part(dataset) for name, dataset in found.items()}}


def _part(found: Any) -> dict[str, Any]:
    numbers = [name for name in found.data_vars if name not in ("verdict", "evidence")]
    return {
        "layers": found.sizes["layer"],
        "heads": found.sizes["head"],
        "variables": {name: {"statement": found[name].attrs.get("long_name", ""), "values": found[name].values.tolist()} for name in numbers},
        "verdict": found.verdict.values.tolist(),
        "evidence": found.evidence.values.tolist(),
        "notes": list(found.attrs["notes"]),
    }
