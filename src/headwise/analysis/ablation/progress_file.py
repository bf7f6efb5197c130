"""A file that remembers which units are done, so that work that was stopped goes on.

The first line says what the work is; each further line is one unit. A line that was cut off by a kill is done again.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.analysis.ablation.work_units import Plan, Result, Unit
from headwise.axes import Tensor
from headwise.errors import ArgumentError

SAMPLE = 4096  # numbers of a weight that its print is made of, besides its sum


class ProgressFile:
    """The units that are done.

    Args:
        path: of the file; made when it is not there.
        about: what the work is; a file of other work is refused.

    Raises:
        ArgumentError: the file is of other work, or cannot be read or written.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.done = path, dict[Unit, Result]()
        header = json.dumps(dict(about), sort_keys=True)
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
            if lines and lines[0].decode(errors="replace") != header and len(lines) > 1:
                raise ArgumentError(f"state must be of the same model, texts and method, got {str(path)!r}, which is of other work. Choose another file.")
            whole = lines[1:-1]  # what follows the last line break was cut off
            self.done = dict(_read(path, line) for line in whole)
            with path.open("wb") as file:
                file.write(b"".join(line + b"\n" for line in (header.encode(), *whole)))
        except OSError as error:
            raise ArgumentError(f"state must name a file that can be written, got {str(path)!r} ({error.strerror}). Choose another place.") from None

    def write(self, unit: Unit, result: Result) -> None:
        """Remember a unit, safe from a kill."""
        self.done[unit] = result
        with self.path.open("ab") as file:
            file.write(json.dumps({"unit": list(unit), **asdict(result)}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path, line: bytes) -> tuple[Unit, Result]:
    try:
        found = json.loads(line)
        text, layer = found.pop("unit")
        return (int(text), int(layer)), Result(**found)
    except (ValueError, TypeError, KeyError):
        raise ArgumentError(f"state must hold one unit a line, got {line[:40]!r} in {str(path)!r}. Delete the file to begin anew.") from None


def about(hf: nn.Module, texts: Any, plan: Plan) -> dict[str, Any]:
    """What the work is: prints of the weights and of the texts, and how importance is measured."""
    plain = {name: value for name, value in asdict(plan).items() if name != "metric"}
    return {"weights": _print(dict(hf.named_parameters())), "texts": _print(texts), **plain}


def _print(what: Any) -> str:
    digest = hashlib.sha256()
    _add(digest, what)
    return digest.hexdigest()[:24]


def _add(digest: Any, what: Any) -> None:
    if isinstance(what, Tensor):
        numbers = what.detach().cpu()
        some = numbers.flatten()[:SAMPLE].contiguous()
        digest.update(f"{list(numbers.shape)}{numbers.dtype}{float(numbers.double().sum())!r}".encode() + some.view(torch.uint8).numpy().tobytes())
    elif isinstance(what, Mapping):
        for name, value in what.items():
            digest.update(str(name).encode())
            _add(digest, value)
    elif isinstance(what, list | tuple):
        for value in what:
            _add(digest, value)
    else:
        digest.update(repr(what).encode())
