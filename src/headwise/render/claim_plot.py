"""The picture of a claim's card. Needs the extra `plot`."""

from typing import TYPE_CHECKING, Any

from headwise.render.figure import FAINT, INK, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headwise.experiments.card import Plot, Series

COLOURS = ("#2f6db5", "#c2571a", "#3f8f4f", "#8a4fa3", "#8c6d1f", "#4b5563")


def plot_figure(plot: "Plot", title: str) -> "Figure":
    """Lines with their bands, points, or bars side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, parse_math=False)
    axes.set_xlabel(plot.x_label, color=FAINT)
    axes.set_ylabel(plot.y_label, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    for place, series in enumerate(plot.series):
        _draw(axes, plot, series, place, COLOURS[place % len(COLOURS)])
    if plot.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if plot.log_y:
        axes.set_yscale("log")
    if plot.reference is not None:
        axes.axhline(plot.reference, color=FAINT, linestyle="--", linewidth=1)
    if len(plot.series) > 1:
        axes.legend(frameon=False, fontsize=8.5)
    return figure


def _draw(axes: Any, plot: "Plot", series: "Series", place: int, colour: str) -> None:
    if plot.kind == "bars":
        width = 0.8 / len(plot.series)
        axes.bar([x + (place - (len(plot.series) - 1) / 2) * width for x in series.x], series.y, width, color=colour, label=series.name)
    elif plot.kind == "points":
        axes.scatter(series.x, series.y, s=14, color=colour, label=series.name)
    else:
        axes.plot(series.x, series.y, color=colour, marker="o", markersize=3.5, label=series.name)
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, linewidth=0)
