"""What comes with this version, made when it was built."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def kills() -> dict[str, Any]:
    """The kill matrix of docs/kill-matrix.md; a test makes that anew and compares."""
    return json.loads(files("headwise.server").joinpath("kills.json").read_text(encoding="utf-8"))
