"""What `hw.rank` found, as tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from headwise.render.head_table import HeadTable
from headwise.render.terminal import bar, head_grid

if TYPE_CHECKING:
    import xarray

COLUMNS = ("layer", "head", "effect", "low", "high", "importance", "rank")
UNITS = {"next": "nats", "masked": "nats", "kl": "nats"}


def rank_table(found: "xarray.Dataset") -> HeadTable:
    """A row a layer, the effect of each head."""
    attributes = found.attrs
    unit = UNITS.get(attributes.get("loss", ""), "")
    group = found.sizes["head"] // int(found["key_heads"].values.max())
    values = tuple(map(tuple, found["effect"].values.tolist()))
    return HeadTable(attributes["part"], "effect", attributes["meaning"], unit, tuple(found.layer.values.tolist()), values, group)


def rank_rows(found: "xarray.Dataset") -> list[tuple[Any, ...]]:
    """A row a head, the most important one first."""
    rows = []
    for layer in range(found.sizes["layer"]):
        for head in range(found.sizes["head"]):
            here = found.isel(layer=layer, head=head)
            if int(here["rank"]):
                rows.append((layer, head, *(float(here[name]) for name in COLUMNS[2:6]), int(here["rank"])))
    return sorted(rows, key=lambda row: row[-1])


def rank_lines(found: "xarray.Dataset", top: int, width: int) -> Iterator[Any]:
    """The grid of all heads, then the first and the last."""
    table, rows, told = rank_table(found), rank_rows(found), found.attrs
    yield Text.assemble((told["model"], "bold"), f"  {told['part']}: {len(table.layers)} layers of {table.heads} heads, {_read(told)}")
    yield Text.assemble("\n", (told["method"], "bold"), f"  {told['meaning']}{_measured(told)}")
    yield from head_grid(table, width)
    yield Text(f"\nthe {min(top, len(rows))} heads on which most rests", "bold")
    yield _listed(rows[:top], rows)
    yield Text(f"\nthe {min(top, len(rows))} on which least does", "bold")
    yield _listed(rows[-top:], rows)


def _listed(rows: list[tuple[Any, ...]], every: list[tuple[Any, ...]]) -> Table:
    largest = max(abs(row[5]) for row in every) or 1.0
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("rank", "head", "effect", "95 %", ""):
        table.add_column(name, justify="right" if name in ("rank", "effect") else "left")
    for layer, head, effect, low, high, importance, place in rows:
        interval = "" if low != low else f"{low:+.4f} … {high:+.4f}"
        table.add_row(str(place), Text(f"{layer}.{head}", "bold"), f"{effect:+.4f}", Text(interval, "dim"), Text(bar(abs(importance) / largest, 16), "cyan"))
    return table


def _read(told: dict[str, Any]) -> str:
    texts = f"{told['texts']} text{'s' if told['texts'] > 1 else ''}"
    return f"{texts}, {told['tokens']} tokens judged" if told["tokens"] else texts


def _measured(told: dict[str, Any]) -> str:
    if "loss" not in told:
        return "."
    said = f", {told['ablation']}" if "ablation" in told else ""
    return f"; loss: {told['loss']}{said}; of the unchanged model {told['base']:.4f}."
