"""The first import of transformers, in one thread.

It puts another module into its own place when it has been read: a thread that waited for it meanwhile holds the one that has nothing in it, and
`from transformers import …` fails there.
"""

import threading
from importlib import import_module

LOCK = threading.Lock()


def transformers() -> None:
    """Import transformers; whoever comes while another thread does waits here, not for the module."""
    with LOCK:
        import_module("transformers")
