"""A file is there whole or not at all."""

import os
import sys
from pathlib import Path

import pytest

from headwise.cli.csv_sheet import write_csv
from headwise.errors import ArgumentError
from headwise.interventions.edit_list import write_edits
from headwise.interventions.edits.ablate import Ablate
from headwise.storage import staging
from headwise.storage.atomic_write import write_atomically


@pytest.fixture
def full_disk(monkeypatch):
    def write(path, data):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)


def test_what_was_there_stays_when_the_disk_is_full(tmp_path, full_disk):
    (tmp_path / "told").write_text("old")
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "told", "something new")
    assert (tmp_path / "told").read_text() == "old"
    assert os.listdir(tmp_path) == ["told"]


@pytest.mark.parametrize("write", [lambda path: write_csv(path, ["a"], [[1]]), lambda path: write_edits([Ablate(0, 1)], path)])
def test_nothing_half_written_stays(tmp_path, full_disk, write):
    with pytest.raises(ArgumentError, match="No space left on device"):
        write(tmp_path / "told")
    assert os.listdir(tmp_path) == []


def test_a_link_stays_a_link_and_rights_are_those_of_any_new_file(tmp_path):
    (tmp_path / "other").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomically(tmp_path / "link", b"\x00")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"\x00"
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", "told")
    assert os.read(reading, 9) == b"told"
    os.close(reading)


def test_a_file_keeps_its_permissions(tmp_path):
    (tmp_path / "secret").write_text("old")
    (tmp_path / "secret").chmod(0o600)
    write_atomically(tmp_path / "secret", "new")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_what_a_kill_left_is_cleared_away_and_nothing_else(tmp_path):
    def left(name, number=None):
        path = tmp_path / name
        path.write_text("half")
        return path.rename(tmp_path / f".told.part-{number or path.stat().st_ino}-{name}")

    dead, foreign, busy = left("dead"), left("foreign", number=7), left("busy")
    lock = staging._locked(busy)
    write_atomically(tmp_path / "told", "new")
    staging._unlock(lock)
    assert [path.exists() for path in (dead, foreign, busy)] == [False, True, True]
    write_atomically(tmp_path / "told", "newer")
    assert [path.exists() for path in (foreign, busy)] == [True, False]


def test_a_name_as_long_as_names_may_be(tmp_path):
    write_atomically(tmp_path / ("x" * 255), "new")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_where_the_system_has_no_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    write_atomically(tmp_path / "told", "new")
    assert os.listdir(tmp_path) == ["told"]
