"""Data of charts, which `benchmarks.drawing` draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineChart:
    """Line chart with a line through the points of each of *series*, and a logarithmic vertical axis."""

    title: str
    across: str
    upright: str
    series: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bar chart with a bar for each of *series* in each of *groups*. None stands for a missing bar. Bars begin at 0."""

    title: str
    upright: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]


Chart = LineChart | BarChart
