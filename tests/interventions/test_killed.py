"""kill -9 at 20 random moments of saving: the old state or the new one, never something between."""

import os
import subprocess
import sys
from pathlib import Path

from tests.models.tiny import build

ROOT = Path(__file__).parent.parent.parent


def test_kill_9_at_any_moment_leaves_the_old_state_or_the_new(tmp_path):
    build("llama", vocab_size=20011).save_pretrained(tmp_path / "source", max_shard_size="300KB")
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-m", "tests.interventions.killed", str(tmp_path / "source"), str(tmp_path / "work"), "7"]
    run = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    *told, left = run.stdout.splitlines()
    assert len(told) == 20 and set(told) <= {"old", "new"}, told
    assert told.count("old") >= 5, "the kills must fall within the work"
    assert left == "left ['clean', 'target']", "what killed attempts left is cleared away"
