"""The command line as a whole: how it ends, and how it says what is wrong."""

import json
import subprocess
import sys

import pytest

from headwise.catalog import entries
from headwise.cli.app import main
from headwise.errors import ArgumentError


def outcome(capsys, *words):
    code = main(words)
    found = capsys.readouterr()
    return code, found.out, found.err


def test_nothing_asked_shows_what_there_is(capsys):
    code, out, err = outcome(capsys)
    assert (code, err) == (0, "")
    assert all(name in out for name in entries("headwise.cli"))


def test_every_command_has_help_with_examples(capsys):
    for name, entry in entries("headwise.cli").items():
        code, out, err = outcome(capsys, name, "--help")
        assert (code, err) == (0, "")
        assert "Examples:" in out
        assert next(iter(entry.examples)).split('"')[0].strip() in " ".join(out.split())  # a long one goes over two lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lok"], "No such command 'lok'. Did you mean 'look'? `headwise --help` lists the commands and options."),
        (["look"], "Missing argument 'MODEL'. `headwise look --help` lists the commands and options."),
        (["look", "demo:minilm", "text", "--hed", "3.5"], "No such option: --hed"),
        (["look", "demo:minilm", "text", "--layer", "x"], "Invalid value for '--layer': Input should be a valid integer"),
        (["look", "demo:minilm", "text", "--statistic", "entropi"], "statistic must be one of distance, entropy, first,"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(capsys, words, message):
    code, out, err = outcome(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message.lower() in err.lower()
    assert err.count("\n") == 1


@pytest.mark.parametrize(("words", "kind"), [(["lok"], "UsageError"), (["look", "demo:minilm", "text", "--statistic", "entropi"], "ArgumentError")])
def test_errors_are_json_where_json_was_asked_for(capsys, words, kind):
    code, out, err = outcome(capsys, *words, "--json")
    assert (code, err) == (2, "")
    found = json.loads(out)["error"]
    assert found["kind"] == kind
    assert found["message"].endswith(".")


def test_a_fault_of_ours_is_not_passed_off_as_the_callers(monkeypatch, capsys):
    """An exception that headwise did not raise on purpose is one line that says so, or JSON; --debug shows its traceback."""
    monkeypatch.setattr("headwise.render.measure.measure_name", lambda asked: 1 / 0)
    assert main(["look", "demo:minilm", "text"]) == 70
    found = capsys.readouterr()
    assert found.out == "" and found.err.count("\n") == 1
    assert "headwise failed with ZeroDivisionError: division by zero. Add --debug for the traceback, and please report it." in found.err
    assert main(["look", "demo:minilm", "text", "--json"]) == 70
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "InternalError"
    with pytest.raises(ZeroDivisionError):
        main(["look", "demo:minilm", "text", "--debug"])


def test_debug_shows_where_a_refusal_came_from():
    with pytest.raises(ArgumentError, match="statistic must be one of"):
        main(["look", "demo:minilm", "text", "--statistic", "nothing", "--debug"])


def test_python_m_headwise_is_headwise():
    run = subprocess.run([sys.executable, "-W", "error", "-m", "headwise", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("headwise ")


def test_the_exit_code_reaches_the_shell():
    run = subprocess.run([sys.executable, "-m", "headwise", "lok"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


def test_help_comes_at_once():
    """No command brings torch or transformers before it runs."""
    heavy = "[name for name in ('torch', 'transformers', 'xarray') if name in sys.modules]"
    code = f"import sys; from headwise.cli.app import main; main(['look', '--help']); print({heavy})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
