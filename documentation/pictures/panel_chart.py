"""Small chart of one panel of a dashboard: a line for each series, or one number."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from documentation.pictures.drawing import Canvas, Color, Point
from documentation.pictures.grafana_units import axis_end, shown

Values = Sequence[float | None]
"""Values of a series at the same distances in time; None where the series has no value."""

COLORS: tuple[Color, ...] = ("ours", "alert", "ink", "peer")
"""Colors of the series that the legend names."""
AXIS, PLOT, LINE, SMALL = 52, 84, 17, 13
"""Width of the numbers at the axis, height of the plot, distance of two lines of text, and height of small text."""
TITLE_WIDTH, LEGEND_WIDTH, NUMBER_TITLE_WIDTH = 27, 29, 14
"""Letters in one line of the title of a chart, of its legend, and of the title of a number."""


@dataclass(frozen=True, slots=True)
class PanelChart:
    """A chart with its title above and its legend below; *series* has names and values."""

    title: str
    unit: str
    series: Sequence[tuple[str, Values]]
    span: str
    """Length of the time that the chart shows."""
    end: float | None = None
    """End of the upright axis; None: the end that suits the values."""

    @property
    def titles(self) -> list[str]:
        """Lines of the title."""
        return textwrap.wrap(self.title, TITLE_WIDTH)

    def height(self, titles: int) -> float:
        """Return the height of the chart beneath a title of *titles* lines."""
        return titles * LINE + PLOT + 2 * LINE + LINE * len(self._legend())

    def draw(self, canvas: Canvas, corner: Point, width: float, titles: int) -> None:
        """Draw the chart into *canvas*, with space for a title of *titles* lines."""
        x, y = corner
        for number, line in enumerate(self.titles):
            canvas.text((x, y + 14 + LINE * number), line, size=14, bold=True)
        top = y + titles * LINE + 8
        end = self.end or axis_end(max(map(_highest, self.series), default=0.0), self.unit)
        for share in (0.0, 0.5, 1.0):
            height = top + (1 - share) * PLOT
            canvas.line([(x + AXIS, height), (x + width, height)], color="faint", width=1)
            tick = shown(end * share, self.unit)
            canvas.text((x + AXIS - 5, height + 5), tick, anchor="end", color="muted", size=SMALL)
        canvas.text((x + AXIS, top + PLOT + 17), "0", color="muted", size=SMALL)
        canvas.text((x + width, top + PLOT + 17), self.span, anchor="end", color="muted", size=SMALL)
        series = self._ordered()
        for number in reversed(range(len(series))):
            color = COLORS[min(number, len(COLORS) - 1)]
            for points in _lines(series[number][1], (x + AXIS, top), (width - AXIS, PLOT), end):
                canvas.line(points, color=color, width=2.2 if number < len(COLORS) else 1)
        for number, (name, color) in enumerate(self._legend()):
            base = top + PLOT + 2 * LINE + 2 + LINE * number
            canvas.line([(x + 4, base - 4), (x + 16, base - 4)], color=color, width=3)
            canvas.text((x + 22, base), name, color="muted", size=SMALL)

    def _ordered(self) -> Sequence[tuple[str, Values]]:
        """Return the series; if the legend cannot name all, those that change most come first, then the highest."""
        return self.series if len(self.series) <= len(COLORS) else sorted(self.series, key=_change, reverse=True)

    def _legend(self) -> list[tuple[str, Color]]:
        legend: list[tuple[str, Color]] = [
            (_cut(name), COLORS[min(number, len(COLORS) - 1)])
            for number, (name, _) in enumerate(self._ordered())
            if name
        ]
        if len(legend) <= len(COLORS):
            return legend
        named = len(COLORS) - 1
        return [*legend[:named], (f"and {len(legend) - named} more", COLORS[-1])]


@dataclass(frozen=True, slots=True)
class PanelNumber:
    """A number with its title above."""

    title: str
    text: str
    color: Color

    def draw(self, canvas: Canvas, corner: Point, size: Point) -> None:
        canvas.box(corner, size, fill="panel", edge="faint")
        middle = corner[0] + size[0] / 2
        for number, line in enumerate(textwrap.wrap(self.title, NUMBER_TITLE_WIDTH)):
            canvas.text((middle, corner[1] + 19 + LINE * number), line, anchor="middle", color="muted", size=SMALL)
        place = (middle, corner[1] + size[1] - 12)
        canvas.text(place, self.text, anchor="middle", color=self.color, size=20, bold=True)


def _highest(series: tuple[str, Values]) -> float:
    return max((value for value in series[1] if value is not None), default=0.0)


def _change(series: tuple[str, Values]) -> tuple[float, float]:
    """Return the difference of the highest and the lowest value, and the highest."""
    numbers = [value for value in series[1] if value is not None] or [0.0]
    return max(numbers) - min(numbers), max(numbers)


def _lines(values: Values, corner: Point, size: Point, end: float) -> list[list[Point]]:
    """Return the unbroken parts of the line through *values*; a value alone gets a short line."""
    parts: list[list[Point]] = [[]]
    step = size[0] / max(len(values) - 1, 1)
    for number, value in enumerate(values):
        if value is None or not math.isfinite(value):
            parts.append([])
        else:
            share = min(max(value / end, 0.0), 1.0)
            parts[-1].append((corner[0] + step * number, corner[1] + (1 - share) * size[1]))
    return [part if len(part) > 1 else [part[0], (part[0][0] + 2, part[0][1])] for part in parts if part]


def _cut(name: str) -> str:
    return name if len(name) <= LEGEND_WIDTH else f"{name[: LEGEND_WIDTH - 1]}…"
