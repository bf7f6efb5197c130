"""The user's cache folder, and how something large is made there once: under a lock, beside its place, then moved."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock
from platformdirs import user_cache_path
from safetensors import SafetensorError

from headwise.errors import ModelError


def cache_folder() -> Path:
    """Where headwise keeps what it made: `HEADWISE_CACHE`, or the place that the system has for such things."""
    chosen = os.environ.get("HEADWISE_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("headwise")


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made by the first that asks for it.

    Other processes wait meanwhile. A killed attempt leaves only a part beside the place, which the next one clears away.

    Args:
        make: fills an empty folder.

    Raises:
        ModelError: the cache cannot be written.
    """
    folder = cache_folder()
    place = folder / name
    if place.is_dir():
        return place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{name}.lock"):
            if place.is_dir():
                return place
            for left in folder.glob(f"{name}.part-*"):
                shutil.rmtree(left)
            part = Path(mkdtemp(prefix=f"{name}.part-", dir=folder))
            try:
                make(part)
                part.chmod(0o755)
                part.rename(place)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except (OSError, SafetensorError) as error:  # safetensors says a full disk in its own words
        why = getattr(error, "strerror", None) or error
        raise ModelError(f"the cache must be writable, got {why} for {str(folder)!r}. Set HEADWISE_CACHE to another folder.") from None
    return place
