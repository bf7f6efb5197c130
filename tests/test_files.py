"""A file is there whole or not at all."""

import os
from pathlib import Path

import pytest

from headwise.cli.csv_sheet import write_csv
from headwise.errors import ArgumentError
from headwise.interventions.edit_list import write_edits
from headwise.interventions.edits.ablate import Ablate
from headwise.storage.atomic_write import write_whole


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
        write_whole(tmp_path / "told", "something new")
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
    write_whole(tmp_path / "link", b"\x00")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"\x00"
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "told")
    assert os.read(reading, 9) == b"told"
    os.close(reading)
