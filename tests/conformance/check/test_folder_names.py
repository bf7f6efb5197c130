"""The line of a subject that raised is reported whatever the folder of the clone is called: no decision depends on a piece of a path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headwise

SOURCE = Path(headwise.__file__).resolve().parent.parent
SUBJECT = """def attend(query, key, value, *, causal=False):
    if query.shape[2] > 1:
        raise RuntimeError("more than one query")
    return value
"""
SCRIPT = """import sys
import headwise
import subject
print(headwise.check(subject.attend, shrinking=0))
"""


@pytest.mark.parametrize("name", ["headwise", "a clone", "résumé"])
def test_the_line_that_raised_is_reported(tmp_path: Path, name: str):
    clone = tmp_path / name
    clone.mkdir()
    (clone / "src").symlink_to(SOURCE, target_is_directory=True)
    (clone / "subject.py").write_text(SUBJECT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(clone / "src"), str(clone)]), "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, "-c", SCRIPT], cwd=clone, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    assert found.returncode == 0, found.stderr
    assert "It raises RuntimeError: more than one query at subject.py:3" in found.stdout.replace("\n", " ")
