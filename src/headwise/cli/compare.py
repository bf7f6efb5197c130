"""`headwise compare`: how fine-tuning changed each head."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.command import Command, Json
from headwise.cli.csv_sheet import Csv, check_csv, write_csv
from headwise.cli.output import print_json, show, terminal_width, waiting
from headwise.cli.text_source import read_text
from headwise.errors import ArgumentError

if TYPE_CHECKING:
    import xarray


def compare(
    base: Annotated[str, typer.Argument(help="A directory with a checkpoint, a hub id, or a demo such as demo:smollm2.", show_default=False)],
    tuned: Annotated[str, typer.Argument(help="The same model, tuned or edited; or a folder with a LoRA adapter of it.", show_default=False)],
    text: Annotated[list[str] | None, typer.Option(help="Run both on this text as well; can be repeated. @FILE reads a file.")] = None,
    measure: Annotated[str, typer.Option(help="The measure in the grid: gain, ov, qk, size, temperature; with a text also pattern and writes.")] = "gain",
    part: Annotated[str | None, typer.Option(help="Which attention of the model, such as decoder.cross; all by default.")] = None,
    tied: Annotated[float, typer.Option(help="Cosine from which a head's slices count as equal to another head's.")] = 0.95,
    muted: Annotated[float, typer.Option(help="Gain below which a head is muted.")] = 0.7,
    amplified: Annotated[float, typer.Option(help="Gain above which it is amplified.")] = 1.25,
    rewired: Annotated[float, typer.Option(help="Cosine of QK or OV below which it is rewired.")] = 0.8,
    tempered: Annotated[float, typer.Option(help="Size of QK below which it is tempered.")] = 0.8,
    sharpened: Annotated[float, typer.Option(help="Size of QK above which it is sharpened.")] = 1.25,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="Write the grid to this file.")] = None,
    json: Json = False,
) -> int:
    """Report how each head changed between BASE and TUNED.

    Compares the weights, read layer by layer; with a text both models are run as well. A change that affects all heads of a layer alike is attributed to none:
    a fine-tune that changes every head slightly, or a round trip through bfloat16 or 8 bits, yields no verdict.
    """
    from headwise.render.figure import check_png

    check_csv(csv)
    if png is not None:
        check_png(png)
    texts = [read_text(word) for word in text] if text else None
    with waiting("starting transformers"):
        from headwise.analysis.checkpoints.compare import compared
        from headwise.render.results.compare_table import NUMBERS, compare_columns, compare_data, compare_lines, compare_rows, numbers_of
    if measure not in NUMBERS:
        raise ArgumentError(f"measure must be one of {', '.join(NUMBERS)}, got {measure!r}. Correct the name.")
    limits = {"tied": tied, "muted": muted, "amplified": amplified, "rewired": rewired, "tempered": tempered, "sharpened": sharpened}
    with waiting(f"comparing {tuned} with {base}"):
        found = compared(base, tuned, texts, part=part, **limits)
    first = next(iter(found.values()))
    if measure not in numbers_of(first):
        raise ArgumentError(f"measure {measure!r} must have a text to be measured on, got none. Add --text.")
    write_csv(csv, compare_columns(first), [row for one in found.values() for row in compare_rows(one)])
    if png is not None:
        _draw(found, measure, png)
    if json:
        print_json({"parts": [compare_data(one) for one in found.values()]})
    else:
        show(*(line for one in found.values() for line in compare_lines(one, measure, terminal_width())))
    return 0


def _draw(found: "dict[str, xarray.Dataset]", measure: str, png: Path) -> None:
    from headwise.render.figure import Caption, save_figure, table_figure
    from headwise.render.results.compare_table import compare_table

    if len(found) > 1:
        raise ArgumentError(f"part must be given for a picture of a model with several, got None. Choose one of {', '.join(found)}.")
    (one,) = found.values()
    table = compare_table(one, measure)
    save_figure(table_figure(table, Caption(f"{measure}: {table.statement}", f"{one.attrs['tuned']} against {one.attrs['base']}.")), png)


ENTRY = Command(
    compare,
    examples={
        "headwise compare demo:minilm demo:minilm": "a model compared with itself: no head changed",
        'headwise compare demo:minilm demo:minilm --text "The cat sat on the mat." --measure pattern --csv heads.csv': "on a text as well, numbers to a file",
    },
)
