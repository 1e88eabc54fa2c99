"""Line chart with labels at the ends of the lines. Lines of Warmgate have a strong color, all others are gray."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from documentation.pictures.drawing import WIDTH, Canvas, Point

LEFT, TOP = 56, 66
PLOT_HEIGHT = 250
LABEL_GAP = 18.0
"""Smallest distance between two labels, in units."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis from *low* to *high*, with a number at each of *ticks*."""

    title: str
    low: float
    high: float
    ticks: Sequence[float]
    is_logarithmic: bool = True
    unit: str = ""

    def share(self, value: float) -> float:
        """Return the position of *value* on the axis, from 0 (low end) to 1 (high end)."""
        scale: Callable[[float], float] = math.log if self.is_logarithmic else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))


@dataclass(frozen=True, slots=True)
class LineChart:
    title: str
    description: str
    across: Axis
    upright: Axis
    ours: Mapping[str, Sequence[Point]]
    """Points of Warmgate's lines, by label."""
    others: Mapping[str, Sequence[Point]]
    notes: Sequence[str]
    """Lines of text below the chart, which name the source of the figures."""
    label_width: float = 208
    """Width to the right of the plot for the labels of lines, in units."""

    def svg(self) -> str:
        bottom = TOP + PLOT_HEIGHT
        canvas = Canvas(bottom + 60 + 19 * len(self.notes), self.title, self.description)
        canvas.text((16, 28), self.title, size=18, bold=True)
        canvas.text((16, 50), self.upright.title, color="muted")
        self._axes(canvas, bottom)
        for points in self.others.values():
            canvas.line([self._place(point) for point in points], color="peer", width=1.8)
        for points in self.ours.values():
            canvas.line([self._place(point) for point in points], color="ours", width=3.2)
        self._labels(canvas)
        for number, note in enumerate(self.notes):
            canvas.text((16, bottom + 66 + 19 * number), note, color="muted", size=13)
        return canvas.svg()

    def _axes(self, canvas: Canvas, bottom: float) -> None:
        right = WIDTH - self.label_width
        for tick in self.upright.ticks:
            y = self._place((self.across.low, tick))[1]
            canvas.line([(LEFT, y), (right, y)], color="faint", width=1)
            canvas.text((LEFT - 7, y + 5), f"{tick:g}{self.upright.unit}", anchor="end", color="muted")
        for tick in self.across.ticks:
            x = self._place((tick, self.upright.low))[0]
            canvas.line([(x, bottom), (x, bottom + 5)], color="peer", width=1)
            canvas.text((x, bottom + 21), f"{tick:g}{self.across.unit}", anchor="middle", color="muted")
        canvas.line([(LEFT, bottom), (right, bottom)], color="peer", width=1)
        canvas.text(((LEFT + right) / 2, bottom + 42), self.across.title, anchor="middle", color="muted")

    def _labels(self, canvas: Canvas) -> None:
        ends = {name: self._place(points[-1])[1] for name, points in {**self.others, **self.ours}.items()}
        for name, y in spread(ends, low=TOP, high=TOP + PLOT_HEIGHT).items():
            is_ours = name in self.ours
            place = (WIDTH - self.label_width + 8, y + 5)
            canvas.text(place, name, size=14, color="ours" if is_ours else "muted", bold=is_ours)

    def _place(self, point: Point) -> Point:
        width = WIDTH - LEFT - self.label_width
        across, up = self.across.share(point[0]), self.upright.share(point[1])
        return LEFT + across * width, TOP + (1 - up) * PLOT_HEIGHT


def spread(wanted: Mapping[str, float], *, low: float, high: float) -> dict[str, float]:
    """Return heights near *wanted*, between *low* and *high*, at least `LABEL_GAP` apart and in the same order."""
    names = sorted(wanted, key=lambda name: wanted[name])
    heights = [wanted[name] for name in names]
    for _ in range(200):
        moved = False
        for number, (above, below) in enumerate(pairwise(heights)):
            lacking = LABEL_GAP - (below - above)
            if lacking > 0.01:
                heights[number] -= lacking / 2
                heights[number + 1] += lacking / 2
                moved = True
        heights[0], heights[-1] = max(heights[0], low), min(heights[-1], high)
        if not moved:
            break
    return dict(zip(names, heights, strict=True))
