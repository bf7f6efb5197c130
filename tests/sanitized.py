"""`pytest -p tests.sanitized`: the native kernel of another build, in place of the installed one. `make sanitize` uses it.

HEADWISE_NATIVE names the extension module's file.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class Sanitized(MetaPathFinder):
    """Finds the other build wherever the native kernel is asked for."""

    def find_spec(self, fullname, path, target=None) -> ModuleSpec | None:
        if fullname != "headwise.attention.kernels.native._native":
            return None
        return spec_from_file_location(fullname, os.environ["HEADWISE_NATIVE"])


sys.meta_path.insert(0, Sanitized())
