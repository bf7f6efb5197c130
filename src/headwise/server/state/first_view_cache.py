"""First views on disk: what the page showed of a model at an earlier start.

Opening a model takes seconds, most of which go into imports. Meanwhile the page shows the stored view, if nothing that could change a number has changed
since; when the model is open its own numbers are compared with it, and withdrawn if they differ.
"""

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.errors import ModelError
from headwise.server.payloads.json_data import to_json
from headwise.server.payloads.tensor_payload import from_safetensors, to_safetensors
from headwise.storage.cache import DIGITS, Cache
from headwise.storage.environment import environment, likely_threads
from headwise.storage.file_stamps import Stamp, stamps
from headwise.storage.fingerprint import Key, fingerprint, key_of

if TYPE_CHECKING:
    from headwise.storage.source_files import Origin

Arrays = Mapping[str, np.ndarray]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # a pass on another number of threads sums in another order
CODE_TOLERANCE = 1  # steps of the 8-bit code: where a weight lies between two codes
LARGEST = 4 << 20  # bytes of a view that is stored
CACHE = Cache("first-views", format=2)


@dataclass(frozen=True, eq=False)
class FirstView:
    """The first view of a text.

    Attributes:
        model: facts of the model, as the page gets them.
        facts: facts of the run, as the page gets them.
        part: the part that was shown.
        arrays: "grid" and, where writes can be attributed to heads, "writes": numbers of each head.
        thumbnails: the response that holds every thumbnail.
    """

    model: Mapping[str, Any]
    text: str
    facts: Mapping[str, Any]
    part: str
    arrays: Mapping[str, Arrays]
    thumbnails: bytes

    def agrees(self, arrays: Mapping[str, Arrays], thumbnails: bytes) -> bool:
        """Whether the model's own numbers and thumbnails are these."""
        stored, now = (from_safetensors(response)["arrays"]["mass"].astype(int) for response in (self.thumbnails, thumbnails))
        maps = stored.shape == now.shape and bool(((stored == 0) == (now == 0)).all()) and bool((abs(stored - now) <= CODE_TOLERANCE).all())
        return maps and all(
            name in arrays and arrays[name].keys() == stored.keys() and all(_close(stored[one], arrays[name][one]) for one in stored)
            for name, stored in self.arrays.items()
        )


def load(source: str) -> FirstView | None:
    """The stored view of the model of this name; None if its files, our code, a library or a setting has changed since."""
    stored = CACHE.entry(_name(source))
    try:
        if stored is None or stored.key != _key(Path(stored.value["folder"]), None):
            return None
        data = stored.value
        arrays = {name: from_safetensors(base64.b64decode(packed))["arrays"] for name, packed in data["arrays"].items()}
        return FirstView(data["model"], data["text"], data["facts"], data["part"], arrays, base64.b64decode(data["thumbnails"]))
    except (OSError, ValueError, KeyError, TypeError):  # it is made again
        return None


def store(source: str, origin: "Origin", view: FirstView) -> None:
    """Store a view for the next start; where the disk is full or cannot be written, nothing is stored."""
    data = {
        "folder": str(origin.folder),
        "model": to_json(view.model),
        "text": view.text,
        "facts": to_json(view.facts),
        "part": view.part,
        "arrays": {name: base64.b64encode(to_safetensors(arrays, {})).decode() for name, arrays in view.arrays.items()},
        "thumbnails": base64.b64encode(view.thumbnails).decode(),
    }
    if len(json.dumps(data)) > LARGEST:
        return
    with suppress(ModelError):
        CACHE.write(_name(source), _key(origin.folder, origin.files), data)


def remove(source: str) -> None:
    CACHE.forget(_name(source))


def _name(source: str) -> str:
    return fingerprint(source)[:DIGITS]


def _key(folder: Path, files: "Mapping[str, Stamp] | None") -> Key:
    """Everything that the numbers depend on and that is known before torch is imported.

    Files count by size, dates and inode, not by content: reading the weights of a large model would take longer than the view saves. Nothing can set the
    date of the last change back; and when the model is open, its own numbers are compared.
    """
    now = stamps(folder) if files is None else files
    return key_of(**environment(), threads=likely_threads(), folder=str(folder), files={name: tuple(stamp) for name, stamp in now.items()})


def _close(stored: np.ndarray, now: np.ndarray) -> bool:
    return stored.shape == now.shape and np.allclose(stored, now, equal_nan=True, **TOLERANCE)
