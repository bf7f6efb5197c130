import json

from headwise.experiments.trained import __main__ as home
from headwise.experiments.trained.__main__ import main
from headwise.experiments.trained.stored_results import path_of, read


def test_results_are_made_again_by_their_command(tmp_path, monkeypatch, capsys):
    def sweep(state, progress):
        progress("one", 1, 2)
        return {"command": "x", "state": None if state is None else str(state), "models": [{"heads": 1}, {"heads": 2}], "none": []}

    monkeypatch.setitem(home.SWEEPS, "more_heads", sweep)
    out = tmp_path / "out.json"
    assert main(["more_heads", "--state", str(tmp_path / "s"), "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == sweep(tmp_path / "s", lambda *what: None)
    assert '    {"heads": 1},\n    {"heads": 2}\n  ],' in out.read_text()
    monkeypatch.setattr(home, "path_of", lambda name: tmp_path / f"{name}.json")
    assert main(["more_heads"]) == 0
    assert (tmp_path / "more_heads.json").exists()


def test_a_wrong_name_is_one_line(capsys):
    assert main(["no_heads"]) == 2
    assert capsys.readouterr().err.strip() == "error: name must be one of more_heads, two_patterns, repeats, got 'no_heads'. Correct the name."


def test_every_experiment_is_kept_with_the_command_that_makes_it():
    for name in home.SWEEPS:
        assert read(name)["command"] == f"python -m headwise.experiments.trained {name}"
        assert path_of(name).stat().st_size < 50_000
