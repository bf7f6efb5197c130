"""Results that ship with this version, made when it was built."""

import json
from functools import cache
from importlib.resources import files

from headwise.server.payloads.json_data import Json


@cache
def kill_matrix() -> Json:
    """The kill matrix of docs/kill-matrix.md; a test recomputes and compares it."""
    return json.loads(files("headwise.server").joinpath("kill_matrix.json").read_text(encoding="utf-8"))
