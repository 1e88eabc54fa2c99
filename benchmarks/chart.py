"""Data of a chart. `benchmarks.drawing` draws it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineChart:
    """One line for each of *series*, through its points from left to right. The upright axis is logarithmic."""

    title: str
    across: str
    upright: str
    series: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class BarChart:
    """One bar for each of *series* in each of *groups*; None: there is not one. Lengths begin at 0."""

    title: str
    upright: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]


Chart = LineChart | BarChart
