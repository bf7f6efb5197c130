import pytest

from headwise.errors import ArgumentError
from headwise.experiments.trained.training_log import State


def test_what_is_done_is_remembered_and_a_line_that_was_cut_off_is_done_again(tmp_path):
    path = tmp_path / "state"
    State(path, {"steps": 3}).add("one", {"loss": 0.5})
    State(path, {"steps": 3}).add("two", [1, 2])
    with path.open("a") as file:
        file.write('["three", 0')
    again = State(path, {"steps": 3})
    assert again.done == {"one": {"loss": 0.5}, "two": [1, 2]}
    again.add("three", 7)
    assert State(path, {"steps": 3}).done["three"] == 7


def test_without_a_file_nothing_is_remembered():
    state = State(None, {})
    state.add("one", 1)
    assert state.done == {"one": 1}


def test_a_file_of_other_work_or_a_broken_one_is_refused(tmp_path):
    path = tmp_path / "state"
    State(path, {"steps": 3}).add("one", 1)
    with pytest.raises(ArgumentError, match=r"state must be of the same sweep, got '.*state', which is of another\. Choose another file"):
        State(path, {"steps": 4})
    path.write_text('{"steps": 3}\nnot json\n')
    with pytest.raises(ArgumentError, match=r"state must hold one training a line, got 'not json' in '.*'\. Delete the file to begin anew"):
        State(path, {"steps": 3})
    with pytest.raises(ArgumentError, match=r"state must name a file that can be written, got '.*' \(No such file or directory\)\. Choose another place"):
        State(tmp_path / "none" / "state", {})
