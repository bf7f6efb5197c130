"""`headwise claims`: what people say about heads, put to the test on a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.command import Command, Json
from headwise.cli.csv_sheet import Csv, check_csv, write_csv
from headwise.cli.output import counting, print_json, show, waiting
from headwise.cli.text_source import read_text
from headwise.errors import ArgumentError

if TYPE_CHECKING:
    from headwise.experiments.investigate import ClaimResults


def claims(
    model: Annotated[str, typer.Argument(help="A directory with a checkpoint, a hub id, or a demo such as demo:smollm2.", show_default=False)],
    texts: Annotated[Path | None, typer.Option(help="A file with a text on each line; English prose of 1901 when absent.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this claim, by name, with all of its numbers; may be given again.")] = None,
    conllu: Annotated[Path | None, typer.Option(help="A CoNLL-U file with parsed sentences, for claims about grammar.")] = None,
    gap: Annotated[Path | None, typer.Option(help="A file in the format of GAP, for claims about pronouns.")] = None,
    winobias: Annotated[list[Path] | None, typer.Option(help="A file in the format of WinoBias, likewise; may be given again.")] = None,
    length: Annotated[int, typer.Option(min=8, help="Tokens of a text that are read.")] = 48,
    limit: Annotated[int, typer.Option(min=1, help="Texts, at most; drawn at random where there are more.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn at random.")] = 0,
    numbers: Annotated[bool, typer.Option("--numbers", help="Show every number with its interval, how it was measured, and what was published.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Measure again what was measured before on the same model, texts and settings.")] = False,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="With one --only: write its picture to this file.")] = None,
    json: Json = False,
) -> int:
    """Put sentences about heads to the test on MODEL: each is kept, cut or corrected, or nothing can be told.

    Every claim has a published source, a definition and a rule; intervals are over texts, 95 %. What was measured is kept in the cache folder.
    """
    from headwise.render.figure import check_png

    check_csv(csv)
    if png is not None:
        check_png(png)
        if len(only or ()) != 1:
            raise ArgumentError(f"png must be of one claim, got {len(only or ()) or 'all'} of them. Name one with --only.")
    given = None if texts is None else [line for line in read_text(f"@{texts}").splitlines() if line.strip()]
    with waiting("starting transformers"):
        from headwise.experiments.investigate import investigate
        from headwise.models.loading.open_model import open_model
    opened = open_model(model)
    with counting(f"putting claims to the test on {model}") as progress:
        found = investigate(
            opened,
            given,
            only=only or None,
            conllu=conllu,
            gap=gap,
            winobias=winobias or (),
            length=length,
            limit=limit,
            seed=seed,
            cache=not anew,
            progress=progress,
        )
    _tell(found, numbers or bool(only), csv, png, json)
    return 0


def _tell(found: "ClaimResults", numbers: bool, csv: Path | None, png: Path | None, json: bool) -> None:
    from headwise.render.results.claims_table import COLUMNS, claim_lines, number_rows

    write_csv(csv, COLUMNS, number_rows(found))
    if png is not None:
        _draw(found, png)
    if json:
        print_json(found.json())
    else:
        show(*claim_lines(found, numbers))


def _draw(found: "ClaimResults", png: Path) -> None:
    from headwise.render.claim_plot import plot_figure
    from headwise.render.figure import save_figure

    told = found[0]
    if told.card.plot is None:
        raise ArgumentError(f"png must be of a claim with a picture, got {told.name!r}, which has none on this model. Leave --png out.")
    save_figure(plot_figure(told.card.plot, told.claim.sentence), png)


ENTRY = Command(
    claims,
    examples={
        "headwise claims demo:minilm --only more_heads --png sweep.png": "the same decoder trained with 1 to 32 heads: its numbers, and the curve",
        "headwise claims demo:minilm --only first_token_sink --only equal_say": "two claims, measured on MiniLM",
        "headwise claims demo:minilm --only equal_say --texts story.txt --json": "on texts of your own, a line each, as data",
    },
)
