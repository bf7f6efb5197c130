"""`headwise look`: the attention of every head of a model on a text."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from headwise.cli.command import Command, Json
from headwise.cli.output import print_json, show, terminal_width, waiting
from headwise.cli.text_source import read_text
from headwise.errors import ArgumentError

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.render.head_view import HeadView
    from headwise.render.overview import Overview

KEYS = 5  # keys of a row that are shown by default


def look(
    model: Annotated[str, typer.Argument(help="A directory with a checkpoint, a hub id, or demo:minilm, demo:smollm2.", show_default=False)],
    text: Annotated[str, typer.Argument(help="The text; @FILE reads a file, - reads standard input.", show_default=False)],
    audio: Annotated[Path | None, typer.Option(help="A WAV file at 16 kHz for a speech model; TEXT is then its transcript.")] = None,
    statistic: Annotated[str, typer.Option(help="What the table shows: a statistic, write_share, write_norm or write_cosine.")] = "entropy",
    part: Annotated[str | None, typer.Option(help="Which attention of the model, such as decoder.cross; all by default.")] = None,
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer; can be repeated.")] = None,
    head: Annotated[str | None, typer.Option(metavar="LAYER.HEAD", help="Show the keys that each token attends to in this head, such as 3.5.")] = None,
    rows: Annotated[str | None, typer.Option(metavar="FIRST:STOP", help="Which query tokens of --head to show; the first 64 by default.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help=f"How many keys to show for each token of --head; {KEYS} by default.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the table, or the map of --head, to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the page of this run to this file, as self-contained HTML.")] = None,
    json: Json = False,
) -> int:
    """Show the attention of every head of MODEL on TEXT, with a proof of the numbers.

    The table has a number for each head: the mean of a statistic over all tokens. The proof says what was verified on this very run, each residual beside
    what rounding allows. Exit code 1 when it fails.
    """
    from headwise.render.figure import check_png
    from headwise.render.head_view import head_view
    from headwise.render.measure import measure_name
    from headwise.render.overview import overview, part_of, to_plain

    measure, place, span = measure_name(statistic), _place(head), _span(rows)
    if place is None and (rows, top) != (None, None):
        raise ArgumentError("rows and top must come with a head, got none. Add for example --head 3.5.")
    if png is not None:
        check_png(png)
    words = read_text(text)
    run = _run(model, words, audio)
    if place is not None or png is not None:
        part = part_of(run, part)  # one head and one picture are of one part
    with waiting("proving"):
        view = overview(run, part, layer or ())
    one = head_view(run, part_of(run, part), place, span, top or KEYS) if place is not None else None
    if png is not None:
        _draw(run, view, model, measure, one, png)
    if html is not None:
        with waiting(f"writing {html}"):
            run.save_html(html)
    if json:
        print_json({"model": model, **to_plain(view), "head": one and asdict(one)})
    else:
        show(*_lines(view, model, measure, one))
    return 0 if view.proof.passed else 1


def _run(model: str, text: str, audio: Path | None) -> "Run":
    with waiting("starting transformers"):
        from headwise.models.inputs.audio import audio_with_text, read_wav
        from headwise.models.loading.open_model import open_model
    sound = None if audio is None else read_wav(audio)
    opened = open_model(model)  # shows its own progress, where it has to convert or to load much
    with waiting(f"running {model}"):
        return opened.run(text if sound is None else audio_with_text(opened.hf, opened.tokenizer, sound, text))


def _lines(view: "Overview", model: str, measure: str, one: "HeadView | None") -> Iterator[RenderableType]:
    from headwise.render.terminal import head_grid, proof_table, row_table, standout_table, token_line

    for name, part in view.parts.items():
        table = part.table(measure)
        yield Text.assemble((model, "bold"), f"  {name}: {len(table.layers)} layers of {table.heads} heads")
        yield token_line(part.tokens)
        yield Text.assemble("\n", (measure, "bold"), f"  {table.statement} Mean over the tokens.")
        yield from head_grid(table, terminal_width())
        yield Text("\nheads that stand out (layer.head)", "bold")
        yield standout_table(part.standout)
        if part.refusal:
            yield Text(part.refusal, "yellow")
    if one is not None:
        shown = f"{len(one.rows)} of {one.length} rows" if len(one.rows) < one.length else "all rows"
        yield Text.assemble("\n", (f"head {one.layer}.{one.head}", "bold"), f"  keys that each token attends to, {shown}")
        yield row_table(one.rows)
    yield from (Text.assemble("\n", (f"note: {note}", "yellow")) for note in view.notes)
    yield Text()
    yield proof_table(view.proof)


def _draw(run: "Run", view: "Overview", model: str, measure: str, one: "HeadView | None", png: Path) -> None:
    from headwise.render.figure import Caption, map_figure, save_figure, table_figure
    from headwise.render.head_view import head_map, key_tokens, query_tokens
    from headwise.render.overview import proof_sentence

    if one is not None:
        title = f"{model}, head {one.layer}.{one.head}"
        caption = Caption(title, "Keys (across) that each query token (down) attends to.", proof_sentence(view.proof))
        place = one.layer, one.head
        figure = map_figure(head_map(run, one.part, place), query_tokens(run, one.part), key_tokens(run, one.part), caption)
    else:
        (part,) = view.parts.values()
        table = part.table(measure)
        caption = Caption(table.statement, f"{measure} of every head of {model}: the mean over {len(part.tokens)} tokens.", proof_sentence(view.proof))
        figure = table_figure(table, caption)
    save_figure(figure, png)


def _place(head: str | None) -> tuple[int, int] | None:
    """Layer and head of "3.5"."""
    if head is None:
        return None
    found = re.fullmatch(r"(\d+)\.(\d+)", head.strip())
    if found is None:
        raise ArgumentError(f"head must be LAYER.HEAD, got {head!r}. Write for example --head 3.5.")
    return int(found[1]), int(found[2])


def _span(rows: str | None) -> slice:
    """The rows of "10:20"; either end may be left out."""
    if rows is None:
        return slice(None)
    found = re.fullmatch(r"(\d*):(\d*)", rows.strip())
    if found is None:
        raise ArgumentError(f"rows must be FIRST:STOP, got {rows!r}. Write for example --rows 0:20.")
    return slice(*(int(end) if end else None for end in found.groups()))


ENTRY = Command(
    look,
    examples={
        'headwise look demo:minilm "The cat sat on the mat because it was tired."': "the entropy of every head of a small encoder",
        'headwise look demo:smollm2 "The cat sat on the mat." --statistic first': "how much weight each head of a decoder puts on the first token",
        'headwise look demo:smollm2 "The cat sat on the mat." --head 3.5 --top 3': "the keys that each token attends to in layer 3, head 5",
        'headwise look demo:rxnmapper "CC(=O)O.OCC>>CC(=O)OCC" --head 10.5': "the reactant atom that each product atom comes from",
        "headwise look demo:minilm @story.txt --json": "every number for a text in a file, as JSON",
        'headwise look demo:minilm "The cat sat on the mat." --png heads.png': "the table as a figure",
        'headwise look demo:minilm "The cat sat on the mat." --html heads.html': "the page of this run as one file",
    },
)
