"""The same numbers from a cluster of two workers, one of which is killed on the way."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import headwise as hw
from headwise.errors import MissingPackage
from tests.models.tiny import build, ids

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def said():
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")
    patient = {**os.environ, "RAY_raylet_start_wait_time_s": "120"}
    run = subprocess.run([sys.executable, "-m", "tests.analysis.on_a_cluster"], capture_output=True, text=True, cwd=ROOT, timeout=400, env=patient)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_two_workers_give_the_same_and_a_killed_one_is_no_loss(said):
    assert said["workers"] == 2
    assert said["seen"] == [[done, 9] for done in range(10)]
    for layer, row in enumerate(said["right"]):
        assert said["found"][layer] == pytest.approx(row, abs=1e-6)


def test_what_a_worker_refuses_is_told_as_it_is(said):
    assert said["refused"].startswith("ArgumentError: clean and corrupt must have as many tokens, got 9 and 5.")


@pytest.mark.usefixtures("plain")
def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match=r"ray must be installed to spread work, got none. Run `pip install 'headwise\[ray\]'`"):
        hw.rank(hw.open_model(build("llama")), ids(batch=1, length=9), ray="auto")
