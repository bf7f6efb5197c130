"""`headwise claims`: test published claims about attention heads on a model."""

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
    texts: Annotated[Path | None, typer.Option(help="A file with one text per line; English prose of 1901 by default.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this claim, by name, with all of its numbers; can be repeated.")] = None,
    conllu: Annotated[Path | None, typer.Option(help="A CoNLL-U file with parsed sentences, for claims about grammar.")] = None,
    gap: Annotated[Path | None, typer.Option(help="A file in the GAP format, for claims about pronouns.")] = None,
    winobias: Annotated[list[Path] | None, typer.Option(help="A file in the WinoBias format, likewise; can be repeated.")] = None,
    length: Annotated[int, typer.Option(min=8, help="Tokens read of each text.")] = 48,
    limit: Annotated[int, typer.Option(min=1, help="Texts at most; a random sample if there are more.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="The random seed.")] = 0,
    numbers: Annotated[bool, typer.Option("--numbers", help="Show every number with its interval, its definition and the published value.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Measure again instead of reading cached results.")] = False,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="With a single --only: write its plot to this file.")] = None,
    json: Json = False,
) -> int:
    """Test published claims about heads on MODEL: each is kept (supported), corrected (partly supported), cut (refuted) or inconclusive.

    Every claim has a published source, a definition and a decision rule; intervals are over texts, 95 %. Results are stored in the cache folder.
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
    _print_results(found, numbers or bool(only), csv, png, json)
    return 0


def _print_results(found: "ClaimResults", numbers: bool, csv: Path | None, png: Path | None, json: bool) -> None:
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

    result = found[0]
    if result.card.plot is None:
        raise ArgumentError(f"png must be of a claim with a plot, got {result.name!r}, which has none on this model. Leave --png out.")
    save_figure(plot_figure(result.card.plot, result.claim.sentence), png)


ENTRY = Command(
    claims,
    examples={
        "headwise claims demo:minilm --only more_heads --png sweep.png": "the same decoder trained with 1 to 32 heads: the numbers, and the curve",
        "headwise claims demo:minilm --only first_token_sink --only equal_say": "two claims, measured on MiniLM",
        "headwise claims demo:minilm --only equal_say --texts story.txt --json": "on your own texts, one per line, as JSON",
    },
)
