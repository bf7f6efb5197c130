"""What the page first showed of a model at an earlier start, kept on disk.

Opening a model takes seconds: most of them go into importing what it is made of. Meanwhile the page shows what was seen then, if nothing has changed since that
could change a number; when the model is open it reads the text again, and numbers that are not the same are withdrawn.
"""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.server.payloads.array_pack import pack, unpack
from headwise.server.responses import plain
from headwise.storage.atomic_write import write_whole
from headwise.storage.cache_folder import cache_folder
from headwise.storage.file_stamps import stamps

if TYPE_CHECKING:
    from headwise.storage.source_files import Origin

Arrays = Mapping[str, np.ndarray]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a pass on other threads adds up in another order
CODE = 1  # steps of 8 bits: where a weight lies between two codes
LARGEST = 4 << 20  # bytes of a view that is kept


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
    path = _path(source)
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["of"] != json.loads(json.dumps(_of(Path(told["of"]["folder"]), None))):
            return None
        arrays = {name: unpack(base64.b64decode(data))["arrays"] for name, data in told["arrays"].items()}
        return Seen(told["model"], told["text"], told["facts"], told["part"], arrays, base64.b64decode(told["thumbnails"]))
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it is not whole: it is made again
        return None


def keep(source: str, origin: "Origin", seen: Seen) -> None:
    """Keep a view for the next start; a disk that is full or cannot be written keeps none."""
    told = {
        "of": _of(origin.folder, origin.files),
        "model": plain(seen.model),
        "text": seen.text,
        "facts": plain(seen.facts),
        "part": seen.part,
        "arrays": {name: base64.b64encode(pack(arrays, {})).decode() for name, arrays in seen.arrays.items()},
        "thumbnails": base64.b64encode(seen.thumbnails).decode(),
    }
    words = json.dumps(told)
    path = _path(source)
    if len(words) > LARGEST:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, words)
    except OSError:
        return


def forget(source: str) -> None:
    _path(source).unlink(missing_ok=True)


def _path(source: str) -> Path:
    return cache_folder() / "seen" / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.json"


def _of(folder: Path, files: Any) -> dict[str, Any]:
    """All that numbers hang on: the checkpoint's files, our code, the libraries, the settings."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("HEADWISE_") and name != "HEADWISE_CACHE"}
    return {"folder": str(folder), "files": files if files is not None else stamps(folder), "code": _code(), "with": _versions(), "settings": settings}


@cache
def _code() -> str:
    """A print of our files as they are on disk."""
    home = Path(__file__).parents[2]
    found = {name: stamp[:2] for name, stamp in stamps(home).items() if name.endswith((".py", ".so")) and "node_modules" not in name}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


@cache
def _versions() -> dict[str, str]:
    found = {"python": sys.version}
    for name in ("torch", "transformers", "tokenizers", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def _same(kept: np.ndarray, now: np.ndarray) -> bool:
    return kept.shape == now.shape and np.allclose(kept, now, equal_nan=True, **CLOSE)
