"""`headwise rank`: rank heads by their importance for a model's loss."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.command import Command, Json
from headwise.cli.csv_sheet import Csv, check_csv, write_csv
from headwise.cli.output import counting, print_json, show, terminal_width, waiting
from headwise.cli.text_source import read_text
from headwise.errors import ArgumentError

if TYPE_CHECKING:
    import xarray


def rank(
    model: Annotated[str, typer.Argument(help="A directory with a checkpoint, a hub id, or a demo such as demo:smollm2.", show_default=False)],
    text: Annotated[list[str] | None, typer.Argument(help="Texts; @FILE reads a file, - reads standard input.", show_default=False)] = None,
    lines: Annotated[Path | None, typer.Option(help="A file with one text per line.")] = None,
    method: Annotated[
        str, typer.Option(help="ablation (exact), gradient (first order, three passes per text), write (share of the write) or patch.")
    ] = "ablation",
    ablation: Annotated[
        str, typer.Option(help="What replaces the z of an ablated head: zero, mean (over the texts) or resample (its z in the next text).")
    ] = "zero",
    loss: Annotated[str | None, typer.Option(help="next, masked, kl or cosine; by default the one that fits the model.")] = None,
    clean: Annotated[
        str | None, typer.Option(help="With --corrupt: two prompts; heads are ranked by how much of the clean answer patching each one restores.")
    ] = None,
    corrupt: Annotated[str | None, typer.Option(help="The prompt with a different answer and the same number of tokens.")] = None,
    part: Annotated[str | None, typer.Option(help="Which attention of the model, such as decoder.cross, if it has several.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many heads to list.")] = 8,
    state: Annotated[Path | None, typer.Option(help="A progress file: the same call resumes from it after an interruption.")] = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster to distribute the work over; auto, or local to start one.")] = None,
    seed: Annotated[int, typer.Option(help="The random seed.")] = 0,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="Write the grid of all heads to this file.")] = None,
    json: Json = False,
) -> int:
    """Rank the heads of MODEL by their importance for its loss on the texts.

    Ablation is exact: the head's z is replaced before W_O, and the rest of the forward pass is rerun. Intervals are over texts, 95 %.
    """
    from headwise.render.figure import check_png

    check_csv(csv)
    if png is not None:
        check_png(png)
    texts = _texts(text or [], lines, clean, corrupt)
    with waiting("starting transformers"):
        from headwise.analysis.ablation.rank import rank as ranked
        from headwise.models.loading.open_model import open_model
    opened = open_model(model)
    with counting(f"ranking the heads of {model}") as progress:
        found = ranked(
            opened,
            texts,
            "patch" if clean is not None else method,
            ablation=ablation,
            loss=loss,
            part=part,
            state=state,
            ray=ray,
            seed=seed,
            progress=lambda _, done, total: progress("", done, total),
        )
    _print_ranking(found, top, csv, png, json)
    return 0


def _texts(words: list[str], lines: Path | None, clean: str | None, corrupt: str | None) -> list[Any]:
    """The texts from all sources; the pair of prompts if there is one."""
    if (clean is None) != (corrupt is None):
        raise ArgumentError(f"clean and corrupt must come together, got only {'clean' if corrupt is None else 'corrupt'}. Give both.")
    texts: list[Any] = [read_text(word) for word in words]
    if lines is not None:
        texts += [line for line in read_text(f"@{lines}").splitlines() if line.strip()]
    if clean is not None:
        if texts:
            raise ArgumentError(f"texts must be left out with --clean and --corrupt, got {len(texts)}. Give one or the other.")
        return [(clean, corrupt)]
    if not texts:
        raise ArgumentError("texts must hold at least one text, got none. Write one, or --lines FILE.")
    return texts


def _print_ranking(found: "xarray.Dataset", top: int, csv: Path | None, png: Path | None, json: bool) -> None:
    from headwise.render.results.rank_table import COLUMNS, rank_lines, rank_rows, rank_table

    write_csv(csv, COLUMNS, rank_rows(found))
    if png is not None:
        from headwise.render.figure import Caption, save_figure, table_figure

        attrs = found.attrs
        caption = Caption(f"{attrs['method']}: {attrs['meaning']}", f"every head of {attrs['model']}, {attrs['texts']} texts.")
        save_figure(table_figure(rank_table(found), caption), png)
    if json:
        print_json({**found.attrs, "heads": [dict(zip(COLUMNS, row, strict=True)) for row in rank_rows(found)]})
    else:
        show(*rank_lines(found, top, terminal_width()))


ENTRY = Command(
    rank,
    examples={
        'headwise rank demo:smollm2 "The cat sat on the mat because it was tired." --method gradient': "first order, all 270 heads in a few passes",
        'headwise rank demo:minilm "The cat sat on the mat." "The dog slept." --top 3': "exact: the change of the output when each head is ablated",
        "headwise rank demo:minilm --lines story.txt --csv heads.csv --json": "the same for each line of a file, as CSV and JSON",
    },
)
