"""What README and docs say is run: every Python block, every command line; generated pages are current."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from docs import generate
from headwise.catalog import entries
from headwise.cli.app import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
MINE = """
import headwise as hw


def attend(query, key, value, *, causal=False):
    return hw.attend(query, key, value, causal=causal, query_offset=0 if causal else None).output
"""
STORY = "The cat sat on the mat. The dog sat on the cat. The mat was not amused.\n"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def sessions(page: Path) -> list[list[str]]:
    """The command lines of each block: one after another, in one folder."""
    return [[line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")] for block in blocks(page, "console")]


def command_lines(page: Path) -> list[str]:
    return [line for lines in sessions(page) for line in lines]


ALL_LINES = sorted({line for page in PAGES for line in command_lines(page)})
SESSIONS = sorted({tuple(line for line in lines if line.startswith("headwise ")) for page in PAGES for lines in sessions(page)} - {()})


# What a newcomer reads first is run in `make test`; what ranks, casts or compares all heads of SmolLM2, or tries every mutation, in `make test-all`.
FIRST_PAGES = {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "getting-started.md"}
LONG_COMMANDS = re.compile(r"^headwise (attack(?! \w+ )|check|(rank|roles|claims|compare|edit) demo:smollm2|claims)")


def marked(value, slow: bool):
    return pytest.param(value, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("page", [marked(page, page.name not in FIRST_PAGES) for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_blocks_say_what_they_show(page, tmp_path, monkeypatch, plain):
    monkeypatch.chdir(tmp_path)
    source = "\n".join(blocks(page, "python"))
    examples = doctest.DocTestParser().get_doctest(source, {"__name__": "__main__"}, page.name, str(page), 0)
    assert examples.examples
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(examples)
    assert found.failed == 0


@pytest.mark.parametrize("lines", [marked(lines, any(map(LONG_COMMANDS.match, lines))) for lines in SESSIONS], ids=lambda lines: lines[0])
def test_command_lines_run(lines, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.txt").write_text(STORY)
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr("headwise.server.serve.serve", lambda settings, listening, ready: ready(None))  # a page is served until somebody ends it
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    for line in lines:
        finds_faults = line.startswith("headwise check torch")
        assert main(shlex.split(line)[1:]) == int(finds_faults), line + capsys.readouterr().err
        assert capsys.readouterr().out.strip(), line


def test_every_other_command_line_is_a_make_target_that_exists():
    others = [line for line in ALL_LINES if not line.startswith("headwise ")]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert others
    for line in others:
        word, target = line.split()
        assert word == "make", line
        assert target in targets, line


def test_every_command_has_examples_of_itself():
    for name, entry in entries("headwise.cli").items():
        assert entry.examples
        assert all(line.startswith(f"headwise {name}") for line in entry.examples)


@pytest.mark.parametrize("name", generate.PAGES)
def test_generated_pages_are_current(name):
    assert (ROOT / "docs" / name).read_text() == generate.PAGES[name](), "run `make docs`"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"
