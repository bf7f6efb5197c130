"""A folder is there whole or not at all, and no file that somebody else put there is ever lost: tried on random folders, and by kills at random moments."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import ArgumentError, ModelError
from headwise.storage import atomic_folder as home
from headwise.storage.atomic_folder import Replacing, atomic_folder, check_replaceable

ROOT = Path(__file__).parents[2]
NAMES = ("weights", "config", "thesis.tex", "notes", "sub")
RULES = Replacing(
    lambda folder, name: (folder / name).read_bytes().startswith(b"ours"), lambda name: name in ("weights", "config"), lambda name: name == "weights"
)


def state(folder: Path) -> dict[str, object]:
    """Every file, link and empty folder, with its content."""
    found: dict[str, object] = {}
    for base, folders, files in os.walk(folder):
        for name in [*files, *(name for name in folders if Path(base, name).is_symlink())]:
            path = Path(base, name)
            found[path.relative_to(folder).as_posix()] = os.readlink(path) if path.is_symlink() else path.read_bytes()
        if not folders and not files and Path(base) != folder:
            found[Path(base).relative_to(folder).as_posix()] = "empty folder"
    return found


paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
contents = st.sampled_from([b"ours 1", b"ours 2", b"of somebody", b"the same", b""])
trees = st.dictionaries(paths, st.one_of(contents, st.just("link"), st.just("link to a folder"), st.just("empty folder")), max_size=6)


def grow(folder: Path, tree: dict[str, object]) -> None:
    for name, content in tree.items():
        path = folder / name
        if any(parent.is_symlink() or parent.is_file() for parent in (path, *path.parents)) or path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "empty folder":
            path.mkdir()
        else:
            path.symlink_to("/etc/hostname" if content == "link" else "/etc")


def foreign(before: dict[str, object]) -> dict[str, object]:
    """What nobody may touch: all but what is part of the thing by its name, and what this program wrote."""
    return {name: x for name, x in before.items() if name not in ("weights", "config") and not (isinstance(x, bytes) and x.startswith(b"ours"))}


@settings(max_examples=250, deadline=None)
@given(trees, st.dictionaries(paths, contents, min_size=1, max_size=4), st.booleans())
def test_files_of_others_are_byte_identical_after_any_save(old, new, aborted):
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "place"
        folder.mkdir()
        grow(folder, old)
        before, written = state(folder), None
        nodes = {name: (folder / name).lstat().st_ino for name in foreign(before)}
        try:
            with atomic_folder(folder, RULES) as part:
                grow(part, new)
                written = state(part)
                if aborted:
                    raise RuntimeError
        except (ArgumentError, ModelError, RuntimeError):
            assert state(folder) == before, "a save that is refused or fails changes nothing"
        else:
            after = state(folder)
            assert all(after[name] == x for name, x in written.items())
            assert {name: x for name, x in foreign(before).items() if after.get(name) != x and not (x == "empty folder" and (folder / name).is_dir())} == {}
            assert all((folder / name).lstat().st_ino == node for name, node in nodes.items() if before[name] != "empty folder"), "the very same files"
            assert set(after) <= {*written, *before}
        assert os.listdir(base) == ["place"], "nothing is left beside"


CONFLICTS = {
    "a file of somebody that has the name of a new one": ({"thesis.tex": b"of somebody"}, {"thesis.tex": b"new"}, "would replace thesis.tex"),
    "a file where a new folder goes": ({"sub": b"of somebody"}, {"sub/config": b"new"}, "would replace sub"),
    "a folder where a new file goes": ({"sub/thesis.tex": b"of somebody"}, {"sub": b"new"}, "would replace sub/thesis.tex"),
    "a link that has the name of a new file": ({"notes": "link"}, {"notes": b"new"}, "would replace notes"),
    "weights that would be read with the new ones": ({"weights": b"of somebody"}, {"config": b"new"}, "holds weights, which headwise did not write"),
    "several": (
        {f"sub/{n}": b"of somebody" for n in NAMES},
        {f"sub/{n}": b"new" for n in NAMES},
        "would replace sub/config, sub/notes, sub/weights and 2 more",
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_what_cannot_be_kept_is_refused_by_name(tmp_path, case):
    old, new, message = CONFLICTS[case]
    folder, beside = tmp_path / "place", tmp_path / "new"
    folder.mkdir()
    beside.mkdir()
    grow(folder, old)
    grow(beside, new)
    before = state(folder)
    with pytest.raises(ArgumentError, match=message), atomic_folder(folder, RULES) as part:
        grow(part, new)
    with pytest.raises(ArgumentError, match=message):  # known before the work begins
        check_replaceable(folder, RULES, {name: beside / name for name in new})
    assert state(folder) == before


def test_dates_modes_and_links_of_others_stay_and_an_empty_folder_too(tmp_path):
    folder = tmp_path / "place"
    grow(folder, {"config": b"old", "sub/thesis.tex": b"years", "notes": "link", "sub/sub": "empty folder"})
    (folder / "sub").chmod(0o750)
    (folder / "sub" / "thesis.tex").chmod(0o600)
    os.utime(folder / "sub" / "thesis.tex", (1, 1))
    with atomic_folder(folder, RULES) as part:
        grow(part, {"config": b"new"})
    assert state(folder) == {"config": b"new", "sub/thesis.tex": b"years", "notes": "/etc/hostname", "sub/sub": "empty folder"}
    kept = (folder / "sub" / "thesis.tex").stat()
    assert (kept.st_mode & 0o777, kept.st_mtime, kept.st_nlink, (folder / "sub").stat().st_mode & 0o777) == (0o600, 1, 1, 0o750)


def test_a_file_that_comes_during_the_save_stops_it(tmp_path, monkeypatch):
    folder = tmp_path / "place"
    grow(folder, {"config": b"old"})
    link = home._link
    monkeypatch.setattr(home, "_link", lambda old, new, plan: (link(old, new, plan), (old / "thesis.tex").write_text("years")))
    with pytest.raises(ModelError, match="got somebody wrote to this folder meanwhile"), atomic_folder(folder, RULES) as part:
        grow(part, {"config": b"new"})
    assert state(folder) == {"config": b"old", "thesis.tex": b"years"}


def test_a_file_that_comes_at_the_last_moment_is_kept_beside_and_named(tmp_path, monkeypatch):
    folder = tmp_path / "place"
    grow(folder, {"config": b"old"})
    exchange = home._exchanged
    monkeypatch.setattr(home, "_exchanged", lambda new, old, one: ((old / "thesis.tex").write_text("years"), exchange(new, old, one))[1])
    with pytest.warns(UserWarning, match=r"thesis.tex was written to '.*place' during the save and is now in '.*part-"), atomic_folder(folder, RULES) as part:
        grow(part, {"config": b"new"})
    (left,) = (path for path in tmp_path.iterdir() if path != folder)
    assert state(left) == {"thesis.tex": b"years"} and state(folder) == {"config": b"new"}
    monkeypatch.undo()
    with atomic_folder(folder, RULES) as part:
        grow(part, {"config": b"newer"})
    assert state(left) == {"thesis.tex": b"years"}, "no later save takes it away"


def test_a_file_that_cannot_be_linked_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "place"
    grow(folder, {"config": b"old", "thesis.tex": b"years"})

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with (
        pytest.raises(ModelError, match="must be writable, got Operation not permitted for .*place.* Nothing was changed"),
        atomic_folder(folder, RULES) as part,
    ):
        grow(part, {"config": b"new"})
    assert state(folder) == {"config": b"old", "thesis.tex": b"years"} and os.listdir(tmp_path) == ["place"]


def test_a_place_may_be_new_or_an_empty_folder(tmp_path):
    for place in (tmp_path / "new" / "place", tmp_path / "empty"):
        place.mkdir() if place.name == "empty" else None
        with atomic_folder(place) as part:
            grow(part, {"config": b"new"})
        assert state(place) == {"config": b"new"}
    with pytest.raises(ArgumentError, match="must be new or empty"), atomic_folder(tmp_path / "empty") as part:
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match=r"a folder is needed to save to, and '.*file' is a file"), atomic_folder(tmp_path / "file") as part:
        pass


KILLED = """
import sys
from pathlib import Path
from tests.storage.test_atomic_folder import RULES, atomic_folder, grow
place, number = Path(sys.argv[1]), 0
print("begun", flush=True)
while True:
    number += 1
    with atomic_folder(place, RULES) as part:
        grow(part, {"config": b"%d" % number, "weights": b"%d" % number * 5000, "sub/config": b"the same"})
"""


def test_kill_9_at_any_moment_leaves_one_whole_state_and_every_file_of_others(tmp_path):
    folder, draw = tmp_path / "place", random.Random(7)
    others = {"thesis.tex": b"years", "sub/notes": b"of somebody", "sub/config": b"the same", "notes": "link", "checkpoint/sub": "empty folder"}
    grow(folder, {"config": b"0", "weights": b"0" * 5000, **others})
    expected = foreign(state(folder))
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert process.stdout.readline() == "begun\n"
        time.sleep(draw.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = state(folder)
        assert {name: found.get(name) for name in expected} == expected
        assert found["weights"] == found["config"] * 5000, "one save, whole"
        assert set(found) == {*expected, "weights", "config"}
    with atomic_folder(folder, RULES) as part:
        grow(part, {"config": b"1", "weights": b"1" * 5000, "sub/config": b"the same"})
    assert os.listdir(tmp_path) == ["place"], "what killed attempts left is cleared away"
    assert foreign(state(folder)) == expected
