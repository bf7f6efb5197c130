"""What `hw.compare` found, as lines of a terminal, as rows and as data."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from headwise.render.head_table import HeadTable
from headwise.render.terminal import head_grid

if TYPE_CHECKING:
    import xarray

NUMBERS = ("gain", "ov", "qk", "size", "temperature", "pattern", "writes")
STYLES = {"tied": "magenta", "muted": "red", "amplified": "green", "rewired": "bold yellow", "tempered": "cyan", "sharpened": "blue"}


def numbers_of(found: "xarray.Dataset") -> tuple[str, ...]:
    """The measures that it has."""
    return tuple(name for name in NUMBERS if name in found)


def compare_columns(found: "xarray.Dataset") -> tuple[str, ...]:
    return ("part", "layer", "head", "verdict", *numbers_of(found), "twin", "evidence")


def compare_table(found: "xarray.Dataset", measure: str) -> HeadTable:
    """One measure of every head."""
    group = found.sizes["head"] // int(found["key_heads"].values.max())
    values = tuple(map(tuple, found[measure].values.astype(float).tolist()))
    return HeadTable(found.attrs["part"], measure, found[measure].attrs["long_name"], "", tuple(found.layer.values.tolist()), values, group)


def compare_rows(found: "xarray.Dataset", changed: bool = False) -> list[tuple[Any, ...]]:
    """A row a head, in order; with `changed` only those that have a verdict."""
    rows = []
    for layer in range(found.sizes["layer"]):
        for head in range(found.sizes["head"]):
            here = found.isel(layer=layer, head=head)
            word = str(here["verdict"].values)
            if word and not (changed and word == "unchanged"):
                numbers = [float(here[name]) for name in numbers_of(found)]
                rows.append((found.attrs["part"], layer, head, word, *numbers, int(here["twin"]), str(here["evidence"].values)))
    return rows


def compare_lines(found: "xarray.Dataset", measure: str, width: int) -> Iterator[Any]:
    """The grid of one measure, then the heads that changed and why each is called so."""
    told = found.attrs
    rows = compare_rows(found, changed=True)
    counts = Counter(row[3] for row in rows)
    yield Text.assemble(
        (str(told["tuned"]), "bold"),
        " against ",
        (str(told["base"]), "bold"),
        f"  {told['part']}: {found.sizes['layer']} layers of {found.sizes['head']} heads",
    )
    yield Text.assemble("\n", (measure, "bold"), f"  {found[measure].attrs['long_name']}")
    yield from head_grid(compare_table(found, measure), width)
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    yield Text(f"\n{said or 'no head changed by itself'}", "bold")
    if rows:
        yield _listed(found, rows)
    yield from (Text(f"note: {note}", "yellow") for note in told["notes"][:3])


def compare_data(found: "xarray.Dataset") -> dict[str, Any]:
    columns = compare_columns(found)
    return {**found.attrs, "heads": [dict(zip(columns, row, strict=True)) for row in compare_rows(found)]}


def _listed(found: "xarray.Dataset", rows: list[tuple[Any, ...]]) -> Table:
    names = numbers_of(found)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("head", "verdict", *names, "because"):
        table.add_column(name, justify="right" if name in names else "left")
    for _, layer, head, word, *numbers, _twin, why in rows:
        cells = [f"{x:.3f}" if x == x else "·" for x in numbers]
        table.add_row(Text(f"{layer}.{head}", "bold"), Text(word, STYLES[word]), *cells, Text(why, "dim"))
    return table
