"""The first import of transformers, in one thread at a time.

transformers replaces its own module object while it is imported: a thread that waited for the import lock meanwhile holds the first, empty one, and
`from transformers import …` fails there.
"""

import threading
from importlib import import_module

LOCK = threading.Lock()


def import_transformers() -> None:
    """Import transformers; other threads wait here and not at the module's import lock."""
    with LOCK:
        import_module("transformers")
