"""transformers is imported by one thread at a time."""

import subprocess
import sys

THREADS = """
import threading
from headwise.server.work import transformers_import as imports

wrong = []

def use():
    imports.import_transformers()
    try:
        from transformers import AttentionInterface
    except ImportError as error:
        wrong.append(str(error))

threads = [threading.Thread(target=use) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
assert not wrong, wrong
"""


def test_threads_that_come_at_once_all_have_it_whole():
    """Without the lock those that come second hold an empty module."""
    found = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
