"""Models converted from other formats, cached by the content of the source and the code of the conversion."""

from collections.abc import Callable, Mapping
from pathlib import Path

from headwise.storage.cache import Cache
from headwise.storage.fingerprint import fingerprint_file, key_of
from headwise.storage.source_closure import source_closure

CACHE = Cache("models", format=1)
ROOM = "headwise.models.loading"  # whose modules convert


def converted(name: str, source: Mapping[str, Path], module: str, convert: Callable[[Path], None]) -> Path:
    """The folder of a converted model.

    It is converted again when any byte of the source, the code of the conversion, or the version of a library it uses changes. The whole source is hashed
    each time, as dates and sizes can stay the same.

    Args:
        name: the model, and the dtype of the result.
        source: every file that the conversion reads, by role.
        module: the converting module; its source code and that of its imports from this package are part of the key.
        convert: writes the model into an empty folder.

    Raises:
        ModelError: the cache cannot be written.
    """
    files = {file: fingerprint_file(path) for file, path in source.items()}
    return CACHE.folder(name, key_of(source=files, code=source_closure(module, ROOM)), convert)
