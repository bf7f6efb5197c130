"""What the page first showed of a model at an earlier start, kept on disk.

Opening a model takes seconds: most of them go into importing what it is made of. Meanwhile the page shows what was seen then, if nothing has changed since that
could change a number; when the model is open it reads the text again, and numbers that are not the same are withdrawn.
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
from headwise.server.payloads.array_pack import pack, unpack
from headwise.server.responses import plain
from headwise.storage.cache import DIGITS, Cache
from headwise.storage.environment import environment, likely_threads
from headwise.storage.file_stamps import Stamp, stamps
from headwise.storage.fingerprint import Key, fingerprint, key_of

if TYPE_CHECKING:
    from headwise.storage.source_files import Origin

Arrays = Mapping[str, np.ndarray]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a pass on other threads adds up in another order
CODE = 1  # steps of 8 bits: where a weight lies between two codes
LARGEST = 4 << 20  # bytes of a view that is kept
CACHE = Cache("first-views", format=2)


@dataclass(frozen=True, eq=False)
class Seen:
    """The first view of a text.

    Attributes:
        model: what the page is told of the model.
        facts: what it is told of the run.
        part: the part that was looked at.
        arrays: "grid" and, where heads can be told apart, "writes": numbers of each head.
        thumbnails: the answer that holds every map in small.
    """

    model: Mapping[str, Any]
    text: str
    facts: Mapping[str, Any]
    part: str
    arrays: Mapping[str, Arrays]
    thumbnails: bytes

    def agrees(self, arrays: Mapping[str, Arrays], thumbnails: bytes) -> bool:
        """Whether the model's own numbers and maps are these."""
        kept, now = (unpack(answer)["arrays"]["mass"].astype(int) for answer in (self.thumbnails, thumbnails))
        maps = kept.shape == now.shape and bool(((kept == 0) == (now == 0)).all()) and bool((abs(kept - now) <= CODE).all())
        return maps and all(
            name in arrays and arrays[name].keys() == kept.keys() and all(_same(kept[one], arrays[name][one]) for one in kept)
            for name, kept in self.arrays.items()
        )


def find(source: str) -> Seen | None:
    """What was seen of the model of this name, unless its files, our code, a library or a setting has changed since."""
    stored = CACHE.entry(_name(source))
    try:
        if stored is None or stored.key != _key(Path(stored.value["folder"]), None):
            return None
        told = stored.value
        arrays = {name: unpack(base64.b64decode(data))["arrays"] for name, data in told["arrays"].items()}
        return Seen(told["model"], told["text"], told["facts"], told["part"], arrays, base64.b64decode(told["thumbnails"]))
    except (OSError, ValueError, KeyError, TypeError):  # it is made again
        return None


def keep(source: str, origin: "Origin", seen: Seen) -> None:
    """Keep a view for the next start; a disk that is full or cannot be written keeps none."""
    told = {
        "folder": str(origin.folder),
        "model": plain(seen.model),
        "text": seen.text,
        "facts": plain(seen.facts),
        "part": seen.part,
        "arrays": {name: base64.b64encode(pack(arrays, {})).decode() for name, arrays in seen.arrays.items()},
        "thumbnails": base64.b64encode(seen.thumbnails).decode(),
    }
    if len(json.dumps(told)) > LARGEST:
        return
    with suppress(ModelError):
        CACHE.write(_name(source), _key(origin.folder, origin.files), told)


def forget(source: str) -> None:
    CACHE.forget(_name(source))


def _name(source: str) -> str:
    return fingerprint(source)[:DIGITS]


def _key(folder: Path, files: "Mapping[str, Stamp] | None") -> Key:
    """All that the numbers depend on, known before torch is imported.

    Files count by size, dates and inode, not by content: to read the weights of a large model would take longer than what the view saves. Nothing can set
    the date of the last change back; and when the model is open, its own numbers are compared.
    """
    now = stamps(folder) if files is None else files
    return key_of(**environment(), threads=likely_threads(), folder=str(folder), files={name: tuple(stamp) for name, stamp in now.items()})


def _same(kept: np.ndarray, now: np.ndarray) -> bool:
    return kept.shape == now.shape and np.allclose(kept, now, equal_nan=True, **CLOSE)
