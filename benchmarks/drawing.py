"""Charts as SVG, drawn by matplotlib. The same figures give the same bytes with the same version of matplotlib."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.chart import BarChart, Chart, LineChart

SIZE_IN = (8.0, 4.4)
STYLE: Any = {  # its keys are typed one by one, for each version again
    "svg.hashsalt": "warmgate",  # names of parts, which are drawn by chance otherwise
    "svg.fonttype": "none",  # text stays text: small files, and a reader can search them
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
}
GROUP_WIDTH = 0.8
"""Width of a group of bars, as a share of its width on the axis. The rest separates groups."""


def svg(chart: Chart) -> str:
    """Return *chart* as an SVG document.

    Raises:
        ValueError: if the chart is empty, or a line has a point that is not above 0.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=SIZE_IN, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(chart.title, loc="left", fontsize=12)
        axes.set_ylabel(chart.upright)
        if isinstance(chart, LineChart):
            _lines(axes, chart)
        else:
            _bars(axes, chart)
        figure.legend(loc="outside right center", frameon=False)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines())


def _lines(axes: Any, chart: LineChart) -> None:
    heights = [y for line in chart.series.values() for _, y in line]
    if not heights or min(heights) <= 0:
        raise ValueError(f"the chart {chart.title!r} needs points above 0")
    for name, line in chart.series.items():
        axes.plot([x for x, _ in line], [y for _, y in line], marker="o", markersize=3, label=name)
    axes.set_yscale("log")
    axes.set_xlabel(chart.across)


def _bars(axes: Any, chart: BarChart) -> None:
    if not any(height is not None for bars in chart.series.values() for height in bars):
        raise ValueError(f"the chart {chart.title!r} has no bar")
    width = GROUP_WIDTH / len(chart.series)
    for number, (name, heights) in enumerate(chart.series.items()):
        left = -GROUP_WIDTH / 2 + width * (number + 0.5)
        there = [(place + left, height) for place, height in enumerate(heights) if height is not None]
        drawn = axes.bar([x for x, _ in there], [height for _, height in there], width, label=name)
        axes.bar_label(drawn, fmt="%.3g", fontsize=7)
    axes.set_xticks(range(len(chart.groups)), chart.groups)
