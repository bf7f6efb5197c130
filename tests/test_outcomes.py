"""A run that lost tests fails, however it lost them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FINE = "import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_fine(n):\n    assert n >= 0\n"
LOST = {
    "a worker is killed": ("import os, signal\ndef test_killed():\n    os.kill(os.getpid(), signal.SIGKILL)\n", "", "crashed"),
    "a worker has an internal error": (
        "def test_unreported():\n    pass\n",
        "import os\n"
        "def pytest_runtest_logfinish(nodeid):\n"
        "    if 'unreported' in nodeid and 'PYTEST_XDIST_WORKER' in os.environ:\n"
        "        raise RuntimeError('lost')\n",
        "FAILED RUN",
    ),
    "a report cannot be sent": ("def test_unsendable():\n    raise AssertionError('\\ud800')\n", "", "FAILED RUN"),
    "a worker exits without a word": ("import os\ndef test_exits():\n    os._exit(0)\n", "", "crashed"),
}


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.outcomes",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        "-c",
        "/dev/null",
        *options,
        str(folder),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("case", LOST)
def test_a_run_that_lost_tests_fails(case, tmp_path):
    source, conftest, said = LOST[case]
    (tmp_path / "test_fine.py").write_text(FINE)
    (tmp_path / "test_lost.py").write_text(source)
    (tmp_path / "conftest.py").write_text(conftest)
    done = run(tmp_path, "-n", "2", "--max-worker-restart", "0")
    assert done.returncode != 0, done.stdout
    assert said in done.stdout + done.stderr


def test_a_whole_run_passes_and_counts_its_outcomes(tmp_path):
    (tmp_path / "test_fine.py").write_text(FINE + "@pytest.mark.skip\ndef test_skipped():\n    pass\n")
    for options in ((), ("-n", "2")):
        done = run(tmp_path, *options)
        assert done.returncode == 0, done.stdout
        assert "9 of 9 collected tests have an outcome" in done.stdout


def test_a_file_beyond_its_budget_fails_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_TEST_TIMES", str(tmp_path / "times.json"))
    (tmp_path / "test_busy.py").write_text("import time\ndef test_busy():\n    end = time.process_time() + 0.4\n    while time.process_time() < end: pass\n")
    (tmp_path / "budgets.py").write_text("import pathlib, tests.outcomes as o\no.BUDGETS = pathlib.Path(__file__).with_name('budgets.toml')\n")
    (tmp_path / "budgets.toml").write_text("default = 0.2\nsplit = []\n[files]\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run(tmp_path, "-p", "budgets")
    assert done.returncode == 1, done.stdout
    assert "its budget is 0.2 s" in done.stdout
    assert '"test_busy.py::test_busy": 0.' in (tmp_path / "times.json").read_text()
