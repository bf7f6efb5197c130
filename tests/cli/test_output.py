import json
import time
from io import StringIO

from headwise.cli import output


def test_json_has_null_for_what_it_has_no_number_for(capsys):
    output.print_json({"a": [1.5, float("nan")], "b": (float("inf"), {"c": -float("inf")}), "d": "ü", "e": True})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None], "b": [None, {"c": None}], "d": "ü", "e": True}


def test_an_error_is_one_line_whatever_it_holds(capsys):
    output.print_error("a [bold]must[/bold]\n  hold, got\tnone.  " + "Long words. " * 30)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("error: a [bold]must[/bold] hold, got none. Long words.")


class Terminal(StringIO):
    def isatty(self):
        return True


def waited(monkeypatch, screen, seconds):
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "PATIENCE", 0.05)
    with output.waiting("opening a model"):
        time.sleep(seconds)
    return screen.getvalue()


def test_long_waits_are_told(monkeypatch):
    assert "opening a model" in waited(monkeypatch, Terminal(), 0.4)


def test_short_waits_are_not(monkeypatch):
    assert "opening" not in waited(monkeypatch, Terminal(), 0.0)


def test_nobody_is_told_where_nobody_looks(monkeypatch):
    assert waited(monkeypatch, StringIO(), 0.2) == ""
