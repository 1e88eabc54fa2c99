"""Line charts as SVG, for reports: no library, and the same bytes from the same figures."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 40, 48
COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#8e44ad", "#d68910", "#566573", "#117a65", "#2c3e50", "#a04000", "#7d6608")
LINE_PX = 15


@dataclass(frozen=True, slots=True)
class LineChart:
    """One line for each of *series*, through its points from left to right. The upright axis is logarithmic."""

    title: str
    across: str
    upright: str
    series: Mapping[str, Sequence[tuple[float, float]]]

    def svg(self) -> str:
        """Raises ``ValueError`` where no point is there, or one is not above 0 on the upright axis."""
        points = [point for line in self.series.values() for point in line]
        if not points or min(y for _, y in points) <= 0:
            raise ValueError(f"the chart {self.title!r} needs points above 0")
        plane = _Plane.around(points)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
            'font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(LEFT, 22, self.title, size=15),
            *plane.grid(),
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, self.across, anchor="middle"),
            _text(LEFT, TOP - 6, self.upright),
            *self._lines(plane),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _lines(self, plane: "_Plane") -> Iterable[str]:
        ends = sorted((plane.y(line[-1][1]), name) for name, line in self.series.items() if line)
        colour_of = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(self.series)}
        for name, line in self.series.items():
            path = " ".join(f"{plane.x(x):.1f},{plane.y(y):.1f}" for x, y in line)
            yield f'<polyline points="{path}" fill="none" stroke="{colour_of[name]}" stroke-width="2"/>'
        below = -math.inf
        for y, name in ends:
            # Names that would lie on each other move down.
            below = max(y + 4, below + LINE_PX)
            yield _text(WIDTH - RIGHT + 8, below, name, colour=colour_of[name])


@dataclass(frozen=True, slots=True)
class _Plane:
    """Where a point is on the page."""

    left: float
    right: float
    low: float
    high: float

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]]) -> "_Plane":
        across = [x for x, _ in points]
        upright = [y for _, y in points]
        # Whole decades, so that a line of the grid is at both ends.
        low = 10.0 ** math.floor(math.log10(min(upright)))
        high = 10.0 ** math.ceil(math.log10(max(upright)))
        return cls(min(across), max(across), low, high if high > low else 10 * low)

    def x(self, value: float) -> float:
        share = (value - self.left) / (self.right - self.left) if self.right > self.left else 0.5
        return LEFT + share * (WIDTH - RIGHT - LEFT)

    def y(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def grid(self) -> Iterable[str]:
        decade = self.low
        while decade <= self.high * 1.001:
            for factor in (1, 2, 5):
                if decade * factor <= self.high * 1.001:
                    yield from self._level(decade * factor)
            decade *= 10
        for step in range(6):
            value = self.left + (self.right - self.left) * step / 5
            yield _text(self.x(value), HEIGHT - BOTTOM + 18, f"{value:.3g}", anchor="middle")

    def _level(self, value: float) -> Iterable[str]:
        y = f"{self.y(value):.1f}"
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#dddddd"/>'
        yield _text(LEFT - 6, self.y(value) + 4, f"{value:g}", anchor="end")


def _text(x: float, y: float, content: str, *, anchor: str = "start", size: int = 12, colour: str = "#222222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="{colour}">{escape(content)}</text>'
