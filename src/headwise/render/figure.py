"""Figures for print and for the README: the layer × head table, and the map of one head. Needs the extra `plot`."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import ArgumentError, MissingPackage
from headwise.render.colours import LIGHT, colour, ink
from headwise.render.head_table import HeadTable, number
from headwise.render.visible_text import visible_text
from headwise.storage.atomic_write import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headwise.axes import Float, Tensor

INK, FAINT, PAPER = "#1a1c20", "#686e78", "#ffffff"
LABELLED = 64  # tokens that still fit beside a map
HAIRLINE = 0.06  # of a cell


@dataclass(frozen=True)
class Caption:
    """The text around a figure.

    Attributes:
        title: what is shown.
        subtitle: what it measures.
        footnote: the proof of the numbers.
    """

    title: str
    subtitle: str
    footnote: str = ""


def table_figure(table: HeadTable, caption: Caption) -> "Figure":
    """One cell for each head, with the longer axis horizontal: layers for 30 × 9, heads for 6 × 12."""
    figure, axes = _canvas(*_size(table))
    across = len(table.layers) > table.heads
    for place, row in enumerate(table.values):
        for head in range(table.heads):
            value = row[head] if head < len(row) else float("nan")
            x, y = (place, head + _gaps(head, table)) if across else (head + _gaps(head, table), place)
            _draw_cell(axes, x, y, value, table)
    _axis_of_layers(axes.xaxis if across else axes.yaxis, table)
    _axis_of_heads(axes.yaxis if across else axes.xaxis, table)
    end = table.heads + _gaps(table.heads - 1, table)
    axes.set_xlim(-HAIRLINE, len(table.layers) if across else end)
    axes.set_ylim(end if across else len(table.layers), -HAIRLINE)
    _key(figure, axes, table)
    _write(figure, axes, caption)
    return figure


def map_figure(weights: 'Float[Tensor, "t s"]', queries: Sequence[str], keys: Sequence[str], caption: Caption) -> "Figure":
    """The weights of one head, one row for each query; masked keys are blank. Colours follow the square root of a weight."""
    from matplotlib.colors import PowerNorm

    rows, columns = weights.shape
    figure, axes = _canvas(*(min(max(side * 0.3, 3.5), 9.0) for side in (columns, rows)))
    seen = weights.masked_fill(weights == 0, float("nan")).numpy()
    shown = axes.imshow(seen, cmap=_colours(), norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    for axis, words, length in ((axes.yaxis, queries, rows), (axes.xaxis, keys, columns)):
        labels = [visible_text(word).replace("$", r"\$") for word in words] if len(words) == length <= LABELLED else []
        axis.set_ticks(range(len(labels)), labels, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", rotation=60, length=0)
    axes.tick_params(axis="y", length=0)
    bar = figure.colorbar(shown, ax=axes, fraction=0.04, pad=0.03, ticks=[0, 0.1, 0.5, 1], format="%g")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=FAINT, length=0)
    _write(figure, axes, caption)
    return figure


def check_png(path: Path) -> None:
    """Refuse a path that cannot be written, before any computation starts.

    Raises:
        ArgumentError: the path does not end in .png, or its folder does not exist.
        MissingPackage: matplotlib is not installed.
    """
    if path.suffix.lower() != ".png":
        raise ArgumentError(f"png must name a file that ends in .png, got {str(path)!r}. Correct the ending.")
    if not path.parent.is_dir():
        raise ArgumentError(f"png must name a file in a folder that exists, got {str(path)!r}. Make the folder first.")
    if find_spec("matplotlib") is None:
        raise MissingPackage("matplotlib must be installed for a picture, got none. Run `pip install 'headwise[plot]'`.")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write the figure as PNG, whole or not at all.

    Raises:
        ArgumentError: the file cannot be written.
    """
    drawn = BytesIO()
    with _any_script():
        figure.savefig(drawn, format="png", dpi=200, facecolor=PAPER, bbox_inches="tight", pad_inches=0.25)
    try:
        write_atomically(path, drawn.getvalue())
    except OSError as error:
        raise ArgumentError(f"png must name a file that can be written, got {str(path)!r} ({error.strerror}). Choose another place.") from None


def _canvas(width: float, height: float) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.spines[:].set_visible(False)
    return figure, axes


def _write(figure: "Figure", axes: "Axes", caption: Caption) -> None:
    """Place the title and the footnote above and below the drawing, aligned with its left edge."""
    with _any_script():
        box = axes.get_tightbbox().transformed(figure.transFigure.inverted())
    line = 0.22 / figure.get_figheight()
    for words, place, size, shade, weight in (
        (caption.title, box.y1 + 2.4 * line, 14, INK, "bold"),
        (caption.subtitle, box.y1 + 1.3 * line, 9.5, FAINT, "normal"),
        (caption.footnote, box.y0 - 1.5 * line, 8.5, FAINT, "normal"),
    ):
        figure.text(box.x0, place, words, fontsize=size, color=shade, fontweight=weight, parse_math=False)


@contextmanager
def _any_script() -> Iterator[None]:
    """A token in a script that the font lacks is drawn as a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def _size(table: HeadTable) -> tuple[float, float]:
    longer, shorter = sorted((len(table.layers), table.heads), reverse=True)
    return max(longer * 0.4, 3.0), max(shorter * 0.32, 0.64)


def _draw_cell(axes: "Axes", x: float, y: float, value: float, table: HeadTable) -> None:
    from matplotlib.patches import Rectangle

    if value != value:
        axes.add_patch(Rectangle((x, y), 1 - HAIRLINE, 1 - HAIRLINE, facecolor="none", edgecolor="#e2e2de", hatch="////", linewidth=0))
        return
    paper = colour(table.share(value), LIGHT)
    axes.add_patch(Rectangle((x, y), 1 - HAIRLINE, 1 - HAIRLINE, facecolor=paper, linewidth=0))
    axes.text(x + 0.47, y + 0.48, number(value, table.scale[1]), color=ink(paper), fontsize=7, ha="center", va="center")


def _gaps(head: int, table: HeadTable) -> float:
    """Positions of the heads, grouped by shared key head."""
    return 0.25 * (head // table.group) if table.group > 1 else 0.0


def _axis_of_layers(axis: Any, table: HeadTable) -> None:
    _ticks(axis, [place + 0.47 for place in range(len(table.layers))], [str(layer) for layer in table.layers], "layer")


def _axis_of_heads(axis: Any, table: HeadTable) -> None:
    _ticks(axis, [head + _gaps(head, table) + 0.47 for head in range(table.heads)], [str(head) for head in range(table.heads)], "head")


def _ticks(axis: Any, places: list[float], words: list[str], name: str) -> None:
    axis.set_ticks(places)
    axis.set_ticklabels(words, fontsize=8, color=FAINT)
    axis.set_tick_params(length=0)
    axis.set_label_text(name, color=INK, fontsize=9.5)
    if axis.axis_name == "x":
        axis.tick_top()
        axis.set_label_position("top")


def _key(figure: "Figure", axes: "Axes", table: HeadTable) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    low, high = table.scale
    shades = ScalarMappable(Normalize(low, high), _colours())
    bar = figure.colorbar(shades, ax=axes, fraction=0.02, pad=0.015, aspect=26, ticks=[low, high])
    bar.outline.set_visible(False)
    bar.ax.set_yticklabels([number(low, high), f"{number(high, high)}{f' {table.unit}' if table.unit else ''}"])
    bar.ax.tick_params(labelsize=8, colors=FAINT, length=0)


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("heads", LIGHT)
