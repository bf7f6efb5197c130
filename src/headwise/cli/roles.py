"""`headwise roles`: find the roles of attention heads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.command import Command, Json
from headwise.cli.csv_sheet import Csv, check_csv, write_csv
from headwise.cli.output import counting, print_json, show, waiting
from headwise.cli.text_source import read_text

if TYPE_CHECKING:
    import xarray


def roles(
    model: Annotated[str, typer.Argument(help="A directory with a checkpoint, a hub id, or a demo such as demo:smollm2.", show_default=False)],
    role: Annotated[list[str] | None, typer.Option(help="Only this role, or one relation such as grammar:nsubj; can be repeated. All by default.")] = None,
    lines: Annotated[Path | None, typer.Option(help="A file with one text per line; random simple English sentences by default.")] = None,
    conllu: Annotated[Path | None, typer.Option(help="A CoNLL-U file with parsed sentences, for grammar.")] = None,
    gap: Annotated[Path | None, typer.Option(help="A file in the GAP format, for coreference.")] = None,
    winobias: Annotated[list[Path] | None, typer.Option(help="A file in the WinoBias format, likewise; can be repeated.")] = None,
    reactions: Annotated[Path | None, typer.Option(help="A file with one atom-mapped reaction (SMILES) per line, for alignment.")] = None,
    part: Annotated[str | None, typer.Option(help="Which attention of the model, such as decoder.cross, if it has several.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Texts for each role, at most.")] = 400,
    margin: Annotated[float, typer.Option(help="The lead over the baseline that a head needs to have a role.")] = 0.05,
    task: Annotated[str | None, typer.Option(help="The task whose scores --png shows; by default the one with the largest lead.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The random seed.")] = 0,
    csv: Csv = None,
    png: Annotated[Path | None, typer.Option(help="Write a grid of all heads to this file.")] = None,
    json: Json = False,
) -> int:
    """Find the roles of MODEL's heads, each compared with the best baseline.

    A head is chosen on one half of the texts and judged on the other; it has the role if it certainly exceeds the baseline by --margin.
    """
    from headwise.render.figure import check_png

    check_csv(csv)
    if png is not None:
        check_png(png)
    texts = [] if lines is None else [line for line in read_text(f"@{lines}").splitlines() if line.strip()]
    with waiting("starting transformers"):
        from headwise.analysis.roles.aligned_pairs import read_reactions
        from headwise.analysis.roles.find_roles import roles as found_roles
        from headwise.models.loading.open_model import open_model
    opened = open_model(model)
    aligned = [] if reactions is None else read_reactions(opened, reactions)
    with counting(f"asking the heads of {model}") as progress:
        found = found_roles(
            opened,
            role or "all",
            texts=texts,
            conllu=conllu,
            gap=gap,
            winobias=winobias or (),
            aligned=aligned,
            part=part,
            limit=limit,
            margin=margin,
            seed=seed,
            progress=progress,
        )
    _print_roles(found, task, csv, png, json)
    return 0


def _print_roles(found: "xarray.Dataset", task: str | None, csv: Path | None, png: Path | None, json: bool) -> None:
    from headwise.errors import ArgumentError
    from headwise.render.results.roles_table import COLUMNS, head_rows, leading_task, role_lines, task_rows, task_table

    if task is not None and task not in found["task"].values:
        raise ArgumentError(f"task must be one of {', '.join(found['task'].values.tolist())}, got {task!r}. Correct the name.")
    write_csv(csv, COLUMNS, task_rows(found))
    if png is not None:
        from headwise.render.figure import Caption, save_figure, table_figure

        shown = task or leading_task(found)
        rule = str(found["rule"].sel(task=shown).values)
        caption = Caption(shown, f"{found.attrs['model']}, the score of every head; baseline: {rule}, {float(found['baseline'].sel(task=shown)):.2f}.")
        save_figure(table_figure(task_table(found, shown), caption), png)
    if json:
        print_json(_plain(found, [dict(zip(COLUMNS, row, strict=True)) for row in task_rows(found)], head_rows(found)))
    else:
        show(*role_lines(found))


def _plain(found: "xarray.Dataset", tasks: list[dict[str, Any]], heads: list[tuple[int, int, str]]) -> dict[str, Any]:
    every = [{"layer": layer, "head": head, "role": role} for layer, head, role in heads]
    scores = {str(task): found["score"].sel(task=task).values.tolist() for task in found["task"].values}
    return {**found.attrs, "tasks": tasks, "heads": every, "scores": scores}


ENTRY = Command(
    roles,
    examples={
        "headwise roles demo:minilm --role position --role first_token --limit 12": "heads that attend to neighbours, and to the first token",
        "headwise roles demo:smollm2 --role induction --limit 8 --png induction.png": "induction heads, as a figure",
    },
)
