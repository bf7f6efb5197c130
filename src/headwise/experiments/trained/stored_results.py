"""What came out of training, as it was written down: one JSON file an experiment, beside this code."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from headwise.storage.atomic_write import write_atomically

HOME = Path(__file__).parent


def path_of(name: str) -> Path:
    """Where the results of an experiment are kept."""
    return HOME / f"{name}.json"


@cache
def read(name: str) -> dict[str, Any]:
    """The results of an experiment: its `command`, its `settings`, and what it found.

    Example:
        >>> read("more_heads")["command"]
        'python -m headwise.experiments.trained more_heads'
    """
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def write(path: Path, found: dict[str, Any]) -> None:
    """Write results: a line an entry of its lists, so that two versions can be compared."""
    parts = [f"  {json.dumps(key)}: {_value(value)}" for key, value in found.items()]
    write_atomically(path, "{\n" + ",\n".join(parts) + "\n}\n")


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"    {json.dumps(entry)}" for entry in value) + "\n  ]"
    return json.dumps(value)
