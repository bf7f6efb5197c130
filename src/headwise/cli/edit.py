"""`headwise edit`: change heads of a model, see what it does, and save the result."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.command import Command, Json
from headwise.cli.csv_sheet import Csv, check_csv, write_csv
from headwise.cli.output import print_json, show, terminal_width, waiting
from headwise.cli.text_source import read_text
from headwise.errors import ArgumentError

if TYPE_CHECKING:
    from headwise.interventions.edit import Edit
    from headwise.interventions.edit_effect import Effect
    from headwise.interventions.edited import EditedModel

WRITTEN = re.compile(r"(?:(?P<part>[A-Za-z_][\w.]*):)?(?P<layer>\d+)(?:\.(?P<head>\d+))?(?:=(?P<amount>\S+))?")
Many = list[str] | None


def edit(
    model: Annotated[str, typer.Argument(help="A directory with a checkpoint, a hub id, or a demo such as demo:smollm2.", show_default=False)],
    silence: Annotated[Many, typer.Option(metavar="LAYER.HEAD", help="The head says nothing; may be given again, as may the others.")] = None,
    scale: Annotated[Many, typer.Option(metavar="LAYER.HEAD=FACTOR", help="What the head adds is multiplied.")] = None,
    temper: Annotated[Many, typer.Option(metavar="LAYER.HEAD=TEMPERATURE", help="The head's scores are divided: above 1 flatter, below 1 sharper.")] = None,
    tie: Annotated[Many, typer.Option(metavar="LAYER", help="All heads of the layer read what head 0 reads.")] = None,
    prune: Annotated[Many, typer.Option(metavar="LAYER.HEAD", help="The head is taken out and the matrices shrink, where the family allows it.")] = None,
    blind: Annotated[Many, typer.Option(metavar="LAYER.HEAD=KEY,KEY", help="The head may not look at these places; only as the model runs.")] = None,
    apply: Annotated[Path | None, typer.Option(help="A file of edits, or the headwise.json of a saved checkpoint.")] = None,
    list_: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Write the list of edits to this file, to apply again.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the edited model here: transformers loads it.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Exchange the checkpoint that is at --out for the new one.")] = False,
    at: Annotated[str | None, typer.Option(help="weights, or run for as the model runs; the weights wherever that can be when absent.")] = None,
    text: Annotated[str | None, typer.Option(help="See the effect on this text; @FILE reads a file, - standard input.")] = None,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="Write the grid of what heads write, after over before, to this file.")] = None,
    json: Json = False,
) -> int:
    """Change heads of MODEL, see what that does, and save the result.

    The edits are proved on the text (on a few tokens without one): every other head of an edited layer writes what it wrote, to the last bit. MODEL is
    never written to, unless --out names it and --overwrite is given. A part of a model is named before the layer: decoder.cross:1.3. Exit code 1 when a
    proof fails, such as NaN after an edit.
    """
    from headwise.render.figure import check_png

    check_csv(csv)
    if png is not None:
        check_png(png)
    with waiting("starting transformers"):
        from headwise.interventions.edit_effect import effect
        from headwise.interventions.edit_list import read_edits, write_edits
        from headwise.models.loading.open_model import open_model
        from headwise.render.results.edit_table import edit_data, edit_lines
    named = {"silence": silence, "scale": scale, "temper": temper, "tie": tie, "prune": prune, "blind": blind}
    edits = [*_edits(named), *(read_edits(apply) if apply is not None else [])]
    if not edits:
        raise ArgumentError("edits must be at least one, got none. Add for example --silence 3.5.")
    words = None if text is None else read_text(text)
    opened = open_model(model)
    with waiting(f"editing {model}"):
        edited = opened.edit(edits, at=at)
        report, found = edited.report_on(words), effect(edited, words)
    if list_ is not None:
        write_edits(edits, list_, model)
    saved = None
    if out is not None and report.passed:
        with waiting(f"saving to {out}"):
            saved = edited.save(out, overwrite)
    _files(edited, found, csv, png)
    if json:
        print_json(edit_data(edited, report, found, saved))
    else:
        show(*edit_lines(edited, report, found, saved, terminal_width()))
    return 0 if report.passed else 1


def _edits(named: dict[str, Many]) -> Iterator["Edit"]:
    """The edits that the options say, in the order of their kinds."""
    from headwise.interventions.edit_list import kinds

    for name, words in named.items():
        for word in words or ():
            yield _one(kinds()[name].make, kinds()[name].numbers, name, word)


def _one(make: Any, numbers: str, name: str, word: str) -> "Edit":
    found = WRITTEN.fullmatch(word.strip())
    wants_head, wants_amount = "HEAD" in numbers, "=" in numbers
    if found is None or (found["head"] is not None) != wants_head or (found["amount"] is not None) != wants_amount:
        raise ArgumentError(f"{name} must be {numbers}, got {word!r}. Write for example --{name} {_example(numbers)}.")
    places = [int(found["layer"]), *([int(found["head"])] if wants_head else [])]
    return make(*places, *([_amount(name, numbers, found["amount"])] if wants_amount else []), part=found["part"])


def _amount(name: str, numbers: str, word: str) -> Any:
    try:
        return tuple(int(key) for key in word.split(",")) if "KEY" in numbers else float(word)
    except ValueError:
        raise ArgumentError(f"{name} must be {numbers}, got {word!r} after =. Write for example --{name} {_example(numbers)}.") from None


def _example(numbers: str) -> str:
    return "3" if "HEAD" not in numbers else "3.5=0,1" if "KEY" in numbers else "3.5=1.5" if "=" in numbers else "3.5"


def _files(edited: "EditedModel", found: "Effect", csv: Path | None, png: Path | None) -> None:
    from headwise.render.results.edit_table import COLUMNS, STATEMENT, write_rows, write_tables

    tables = write_tables(edited, found)
    write_csv(csv, COLUMNS, write_rows(tables))
    if png is None:
        return
    if len(tables) != 1:
        raise ArgumentError(f"png must show one part, got {len(tables)} in {edited.base.name}. Leave it out.")
    from headwise.render.figure import Caption, save_figure, table_figure

    (table,) = tables.values()
    save_figure(table_figure(table, Caption(STATEMENT, f"every head of {edited.name}, mean over {found.tokens} tokens.")), png)


ENTRY = Command(
    edit,
    examples={
        'headwise edit demo:minilm --silence 3.5 --scale 2.1=1.5 --temper 0.4=2 --text "The cat sat on the mat."': "three edits, what they do, their proof",
        "headwise edit demo:minilm --tie 1 --list edits.json --out edited": "every head of a layer reads head 0's slice; saved, with a list to apply again",
        'headwise edit demo:minilm --blind 2.7=0 --text "The cat sat on the mat." --json': "a head that may not look at the first token, as data",
    },
)
