"""What every test runs under: annotations enforced, one thread, no network, the same examples on every run.

The import hook checks shapes and types at every call of headwise, so it must be there before headwise is.
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

import jaxtyping
import pytest
import torch
from hypothesis import Phase, settings

import tests.typechecking

loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "headwise")
if loaded:
    raise RuntimeError(f"headwise must be imported after the hook that checks its annotations, got {loaded} already. Run pytest from the repository root.")
jaxtyping.install_import_hook("headwise", f"{tests.typechecking.__name__}.check")

torch.set_num_threads(1)

settings.register_profile("same", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("hunt", deadline=None, max_examples=3000, print_blob=True)
settings.register_profile("glance", deadline=None, max_examples=25, derandomize=True, phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture
def plain():
    """For tests of what headwise itself says of bad input."""
    with tests.typechecking.unchecked():
        yield
