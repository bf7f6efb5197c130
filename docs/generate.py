"""Generate the pages and the figure that come from the code: `make docs`. A test compares the pages with the output of this script."""

import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer.main

from headwise import statistics
from headwise.catalog import entries
from headwise.cli.app import build
from headwise.cli.app import main as headwise
from headwise.conformance.kill_matrix import full_matrix
from headwise.render.results.claims_table import claims_page
from headwise.render.results.kill_matrix_table import data_of_page, page

HERE = Path(__file__).parent
KILLS = HERE.parent / "src" / "headwise" / "server" / "kill_matrix.json"
SENTENCE = "The cat sat on the mat because it was tired."


def statistics_page() -> str:
    """The page of statistics: one section for each, with its statement, formula and unit."""
    lines = [
        "# Statistics",
        "",
        'Every statistic of a row of attention weights. `hw.attend(..., statistics=[...])` and `model.run(..., statistics=[...])` take these names; "all"',
        "means every one that is not marked *by name only*. All are exact, in memory linear in the length.",
        "",
        "In the formulas w is a row of weights, p the position of its query, j a key. A row without visible keys gives NaN, and -1 for `peak`.",
        "",
        "Generated from `src/headwise/attention/statistics/`, one file each, by `make docs`.",
    ]
    for name, entry in statistics().items():
        unit = entry.unit or "a share of 1"
        by_name = " *By name only.*" if entry.opt_in else ""
        lines += ["", f"## `{name}`", "", f"{entry.statement}{by_name}", "", f"    {entry.formula}", "", f"Unit: {unit}."]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """The page of commands: one section for each, with its description, arguments and examples."""
    lines = [
        "# Command line",
        "",
        "`headwise COMMAND`, or `python -m headwise COMMAND`. Results go to standard output, progress and errors to standard error. With `--json` all output",
        'is JSON, including errors: `{"error": {"kind", "message"}}`.',
        "",
        "Exit codes: 0 success; 1 a check failed; 2 invalid usage, with one line that explains it; 70 an internal error of headwise.",
        "`--debug` shows the traceback of an error.",
        "",
        "Generated from `src/headwise/cli/`, one file a command, by `make docs`.",
    ]
    commands = typer.main.get_command(build()).commands  # pyright: ignore[reportAttributeAccessIssue]
    for name, entry in entries("headwise.cli").items():
        lines += ["", f"## `headwise {name}`", "", inspect.getdoc(entry.run) or "", "", "| argument | meaning |", "| --- | --- |"]
        lines += [_argument(parameter) for parameter in commands[name].params if parameter.name != "help"]
        lines += ["", "```console"]
        for line, shows in entry.examples.items():
            lines += [f"# {shows}", f"$ {line}"]
        lines += ["```"]
    return "\n".join(lines) + "\n"


def _argument(parameter) -> str:
    both = [*parameter.opts[:1], *parameter.secondary_opts[:1]]
    words = f"`{parameter.name.upper()}`" if parameter.param_type_name == "argument" else " / ".join(f"`{one}`" for one in both)
    given = parameter.opts[0] if parameter.default is True else parameter.default
    default = "" if parameter.default in (None, False) or parameter.required else f" Default: `{given}`."
    return f"| {words} | {parameter.help}{default} |"


def kill_matrix_page() -> str:
    """Every attack against every invariant: about a minute."""
    return page(full_matrix())


def kills_data() -> str:
    """The page's kill matrix for `headwise serve`."""
    found = data_of_page((HERE / "kill-matrix.md").read_text())
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).replace('},{"attack"', '},\n{"attack"') + "\n"


def claims_of_demos() -> str:
    """The page of claims: an introduction, whose examples a test runs, then the results of `make claims` on the demo models."""
    models = {f"demo:{path.stem}": json.loads(path.read_text())["claims"] for path in sorted((HERE / "claims").glob("*.json"))}
    return (HERE / "claims" / "introduction.md").read_text() + "\n" + claims_page(models)


PAGES = {"statistics.md": statistics_page, "commands.md": commands_page, "claims.md": claims_of_demos}
SLOW_PAGES = {"kill-matrix.md": kill_matrix_page}  # compared by the test that makes the matrix anyway


def main(names: Sequence[str] = ()) -> None:
    """Write these pages; everything when none is named."""
    for name in names:
        (HERE / name).write_text({**PAGES, **SLOW_PAGES}[name]())
    if names:
        return
    for name, make in {**PAGES, **SLOW_PAGES}.items():
        (HERE / name).write_text(make())
    KILLS.write_text(kills_data())
    headwise(["look", "demo:smollm2", SENTENCE, "--statistic", "first", "--png", str(HERE / "heads.png")])


if __name__ == "__main__":
    main(sys.argv[1:])
