"""`headwise edit`: edit heads of a model, measure the effect, and save the result."""

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
    ablate: Annotated[Many, typer.Option(metavar="LAYER.HEAD", help="Set the head's output to zero. Repeatable, like the other edits.")] = None,
    scale: Annotated[Many, typer.Option(metavar="LAYER.HEAD=FACTOR", help="Multiply the head's write by a factor.")] = None,
    temperature: Annotated[
        Many, typer.Option(metavar="LAYER.HEAD=TEMPERATURE", help="Divide the head's scores by a temperature: above 1 flatter, below 1 sharper.")
    ] = None,
    tie_heads: Annotated[Many, typer.Option(metavar="LAYER", help="Give every head of the layer the W_Q, W_K and W_V of head 0.")] = None,
    prune: Annotated[Many, typer.Option(metavar="LAYER.HEAD", help="Remove the head and shrink the matrices, where the architecture allows it.")] = None,
    mask_keys: Annotated[Many, typer.Option(metavar="LAYER.HEAD=KEY,KEY", help="Hide these key positions from the head; at run time only.")] = None,
    apply: Annotated[Path | None, typer.Option(help="Apply the edits in this file, or in the headwise.json of a saved checkpoint.")] = None,
    list_: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Write the list of edits to this file, for --apply.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the edited model to this directory; transformers loads it.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the checkpoint that is already at --out.")] = False,
    mode: Annotated[str | None, typer.Option(help="weights, or run for at run time. By default an edit is made in the weights wherever possible.")] = None,
    text: Annotated[str | None, typer.Option(help="Measure the effect on this text; @FILE reads a file, - standard input.")] = None,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="Write the grid of write norms, after over before, to this file.")] = None,
    json: Json = False,
) -> int:
    """Edit heads of MODEL, measure the effect, and save the result.

    The edits are verified on the text (on a few tokens without one): every other head of an edited layer writes exactly what it wrote, to the last bit. MODEL
    is never written to unless --out names it and --overwrite is given. To name a part of a model, put it before the layer: decoder.cross:1.3. The exit code
    is 1 if a verification fails, for instance because of NaN after an edit.
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
    named = {"ablate": ablate, "scale": scale, "temperature": temperature, "tie_heads": tie_heads, "prune": prune, "mask_keys": mask_keys}
    edits = [*_edits(named), *(read_edits(apply) if apply is not None else [])]
    if not edits:
        raise ArgumentError("edits must be at least one, got none. Add for example --ablate 3.5.")
    words = None if text is None else read_text(text)
    opened = open_model(model)
    with waiting(f"editing {model}"):
        edited = opened.edit(edits, mode=mode)
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
    """The edits given by the options, in the order of their kinds."""
    from headwise.interventions.edit_list import edit_kinds

    for name, words in named.items():
        for word in words or ():
            yield _one(edit_kinds()[name].make, edit_kinds()[name].syntax, name, word)


def _one(make: Any, syntax: str, name: str, word: str) -> "Edit":
    found, option = WRITTEN.fullmatch(word.strip()), name.replace("_", "-")
    wants_head, wants_amount = "HEAD" in syntax, "=" in syntax
    if found is None or (found["head"] is not None) != wants_head or (found["amount"] is not None) != wants_amount:
        raise ArgumentError(f"{option} must be {syntax}, got {word!r}. Write for example --{option} {_example(syntax)}.")
    places = [int(found["layer"]), *([int(found["head"])] if wants_head else [])]
    return make(*places, *([_amount(option, syntax, found["amount"])] if wants_amount else []), part=found["part"])


def _amount(option: str, syntax: str, word: str) -> Any:
    try:
        return tuple(int(key) for key in word.split(",")) if "KEY" in syntax else float(word)
    except ValueError:
        raise ArgumentError(f"{option} must be {syntax}, got {word!r} after =. Write for example --{option} {_example(syntax)}.") from None


def _example(syntax: str) -> str:
    return "3" if "HEAD" not in syntax else "3.5=0,1" if "KEY" in syntax else "3.5=1.5" if "=" in syntax else "3.5"


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
        'headwise edit demo:minilm --ablate 3.5 --scale 2.1=1.5 --temperature 0.4=2 --text "The cat sat on the mat."': "three edits, measured and verified",
        "headwise edit demo:minilm --tie-heads 1 --list edits.json --out edited": "every head of a layer made like head 0; saved, with a list to apply again",
        'headwise edit demo:minilm --mask-keys 2.7=0 --text "The cat sat on the mat." --json': "the first token hidden from a head, as data",
    },
    renamed={"--silence": "--ablate", "--temper": "--temperature", "--tie": "--tie-heads", "--blind": "--mask-keys", "--at": "--mode"},
)
