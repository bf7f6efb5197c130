"""Models converted from other formats: made once, for the same source and the same code, and kept in the cache."""

from collections.abc import Callable, Mapping
from pathlib import Path

from headwise.storage.cache import Cache
from headwise.storage.fingerprint import fingerprint_file, key_of
from headwise.storage.source_closure import source_closure

CACHE = Cache("models", format=1)
ROOM = "headwise.models.loading"  # whose modules do conversions


def converted(name: str, source: Mapping[str, Path], module: str, convert: Callable[[Path], None]) -> Path:
    """The folder with a converted model.

    It is made anew when a byte of the source, the code of the conversion or the version of a library that it uses changes: the source is read whole
    each time (a second for 10 GB that the system has in memory), as dates and sizes can stay the same.

    Args:
        name: of the model, and of the dtype of the result.
        source: all files that the conversion reads, by names that say which is which.
        module: that converts: its source code, and that of what it imports from here, is part of the key.
        convert: writes the model into an empty folder.

    Raises:
        ModelError: the cache cannot be written.
    """
    files = {file: fingerprint_file(path) for file, path in source.items()}
    return CACHE.folder(name, key_of(source=files, code=source_closure(module, ROOM)), convert)
