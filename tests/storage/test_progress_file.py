"""Long work goes on where it was stopped, if it is the same work; a file of anything else is never trusted, and never written to."""

import json

import pytest

from headwise.errors import ArgumentError
from headwise.storage.progress_file import ProgressFile

KEY = {"seed": "a1", "texts": "b2"}


def test_what_is_done_is_remembered_and_a_line_that_was_cut_off_is_done_again(tmp_path):
    path = tmp_path / "state"
    ProgressFile(path, KEY, "training").add("one", {"loss": 0.5})
    ProgressFile(path, KEY, "training").add("two", [1, float("inf")])
    with path.open("a") as file:
        file.write('["three", 0')
    again = ProgressFile(path, dict(reversed(KEY.items())), "training")
    assert again.done == {"one": {"loss": 0.5}, "two": [1, float("inf")]}
    again.add("three", 7)
    assert ProgressFile(path, KEY, "training").done["three"] == 7


def test_a_first_line_that_was_cut_off_is_written_anew(tmp_path):
    path = tmp_path / "state"
    ProgressFile(path, KEY, "training")
    path.write_bytes(path.read_bytes()[:-5])
    ProgressFile(path, KEY, "training").add("one", 1)
    assert ProgressFile(path, KEY, "training").done == {"one": 1}


def test_without_a_file_nothing_is_remembered():
    state = ProgressFile(None, {}, "training")
    state.add("one", 1)
    assert state.done == {"one": 1}


def test_a_file_of_other_work_is_refused_and_says_what_differs(tmp_path):
    path = tmp_path / "state"
    ProgressFile(path, KEY, "training").add("one", 1)
    before = path.read_bytes()
    other = {"seed": "a2", "texts": "b2", "threads": "c3"}
    with pytest.raises(
        ArgumentError, match=r"The state file '.*state' belongs to another training: seed, threads changed since it was written\. Choose another"
    ):
        ProgressFile(path, other, "training")
    with pytest.raises(ArgumentError, match=r"The state file '.*state' is not one of this version's ranking: it is something else"):
        ProgressFile(path, KEY, "ranking")
    assert path.read_bytes() == before


EARLIER = '{"ablation": "zero", "loss": "next", "method": "ablation", "part": null, "seed": 0, "texts": "1", "weights": "2"}\n'


@pytest.mark.parametrize("text", [EARLIER, "a thesis\nin two lines\n", "a thesis in one line", '{"headwise": "training", "format": 1, "key": {}}\n', "[]\n"])
def test_a_file_of_an_earlier_version_or_of_somebody_else_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=r"The state file '.*state' (is not one of this version's training|holds something that headwise did not write)"):
        ProgressFile(path, KEY, "training")
    assert path.read_text() == text


@pytest.mark.parametrize("line", ["not json", '{"unit": 3}', '["one", 2, "0"]', '["one"]'])
def test_a_damaged_line_is_refused(tmp_path, line):
    path = tmp_path / "state"
    ProgressFile(path, KEY, "training").add("one", 1)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ArgumentError, match=r"The state file '.*' is damaged at b'.*'\. Delete it to start anew"):
        ProgressFile(path, KEY, "training")


def test_a_result_that_was_changed_in_the_file_is_refused(tmp_path):
    path = tmp_path / "state"
    ProgressFile(path, KEY, "training").add("one", {"loss": 0.5})
    header, line, _ = path.read_text().split("\n")
    name, _, known = json.loads(line)
    path.write_text(f"{header}\n{json.dumps([name, {'loss': 0.25}, known])}\n")
    with pytest.raises(ArgumentError, match="The state file '.*' is damaged at"):
        ProgressFile(path, KEY, "training")


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(ArgumentError, match=r"The state file '.*' cannot be written \(No such file or directory\)\. Choose another path"):
        ProgressFile(tmp_path / "none" / "state", {}, "training")
    with pytest.raises(ArgumentError, match=r"The state file '.*' cannot be written \(Is a directory\)"):
        ProgressFile(tmp_path, {}, "training")
