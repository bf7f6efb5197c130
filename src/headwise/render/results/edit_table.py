"""Edits, their effect and their verification, as lines of a terminal and as data."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from headwise.render.head_table import HeadTable
from headwise.render.terminal import SIGNS, head_grid
from headwise.render.visible_text import visible_text

if TYPE_CHECKING:
    from headwise.interventions.edit_effect import Effect
    from headwise.interventions.edit_report import EditReport
    from headwise.interventions.edited import EditedModel
    from headwise.interventions.save_record import Saved

COLUMNS = ("part", "layer", "head", "write")
STATEMENT = "Norm of each head's write, after over before."


def write_tables(edited: "EditedModel", found: "Effect") -> dict[str, HeadTable]:
    """By part: the norm of each head's write, after over before."""
    tables = {}
    for part, places in edited.head_map.parts.items():
        rows = found.writes[part]
        if rows is not None:
            group = places[0].heads // places[0].key_heads
            tables[part] = HeadTable(part, "write", STATEMENT, "", tuple(place.layer for place in places), rows, group)
    return tables


def write_rows(tables: dict[str, HeadTable]) -> list[tuple[Any, ...]]:
    return [
        (part, layer, head, value)
        for part, table in tables.items()
        for layer, row in zip(table.layers, table.values, strict=True)
        for head, value in enumerate(row)
    ]


def edit_lines(edited: "EditedModel", report: "EditReport", found: "Effect", saved: "Saved | None", width: int) -> Iterator[Any]:
    """The edits, the grid of write norms, the effect and the verification."""
    yield Text.assemble((edited.base.name, "bold"), f"  {len(edited.edits)} edits")
    yield _edits(edited)
    for table in write_tables(edited, found).values():
        yield Text.assemble("\n", ("write", "bold"), f"  {STATEMENT}{'' if len(found.writes) == 1 else ' ' + table.part}")
        yield from head_grid(table.only(_touched(edited, table.part)), width)
    yield Text()
    yield from _effect(found)
    yield Text()
    for one in report.verdicts.values():
        sign, style = SIGNS[one.passed]
        yield Text.assemble((f"{sign} ", style), str(one).partition(": ")[2])
    if saved is not None:
        yield Text.assemble("\nsaved to ", (str(saved.folder), "bold"), f": {len(saved.changed)} tensors changed, {len(saved.kept)} identical byte for byte")
        yield from (Text(f"left out: {name}, {saved.record['left_out'][name]}", "yellow") for name in saved.left_out)
        yield from (Text(f"still there: {name}, which headwise did not write", "yellow") for name in saved.others)


def edit_data(edited: "EditedModel", report: "EditReport", found: "Effect", saved: "Saved | None") -> dict[str, Any]:
    from headwise.interventions.edit_list import edits_to_json

    return {
        "model": edited.base.name,
        "edits": edits_to_json(edited.edits),
        "at_run": edits_to_json(edited.plan.run),
        "passed": report.passed,
        "verdicts": [verdict.to_json() for verdict in report.verdicts.values()],
        "effect": asdict(found),
        "saved": None if saved is None else _saved_json(saved),
    }


def _edits(edited: "EditedModel") -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for one in edited.edits:
        numbers = {name: x for name, x in asdict(one).items() if x is not None and name not in ("layer", "head", "part")}  # pyright: ignore[reportArgumentType]
        head = getattr(one, "head", None)
        place = f"{one.layer}" if head is None else f"{one.layer}.{head}"  # pyright: ignore[reportAttributeAccessIssue]
        way = "at run time" if one in edited.plan.run else "in the weights"
        amount = ", ".join(f"{name} {_number(x)}" for name, x in numbers.items())
        table.add_row(Text(one.kind, "bold"), Text(place, "bold"), amount, Text(way, "dim"))
    return table


def _number(x: Any) -> str:
    return f"{x:g}" if isinstance(x, float) else ", ".join(map(str, x)) if isinstance(x, list | tuple) else str(x)


def _touched(edited: "EditedModel", part: str) -> Sequence[int]:
    """The layers that some edit changes."""
    calls = {index for one in edited.edits for index, _, _ in one.targets(edited.head_map)}
    return [place.layer for place in edited.head_map.parts[part] if place.index in calls]


def _effect(found: "Effect") -> Iterator[Any]:
    if found.kl is not None:
        yield Text.assemble(
            ("effect", "bold"),
            f"  KL {found.kl:.4f} nats a token, at most {found.worst:.4f}; the top prediction stays the same at {found.same_first:.0%} of {found.tokens}",
        )
        for word, likeliest in (("before", found.before), ("after ", found.after)):
            yield Text.assemble((f"{word} ", "dim"), "   ".join(f"{visible_text(token)} {share:.3f}" for token, share in likeliest))
    else:
        yield Text.assemble(("effect", "bold"), f"  cosine of {found.output} before and after: {found.cosine:.6f}")


def _saved_json(saved: "Saved") -> dict[str, Any]:
    lists = {"changed": saved.changed, "left_out": saved.left_out, "others": saved.others}
    return {"folder": str(saved.folder), "kept": len(saved.kept), **lists}
