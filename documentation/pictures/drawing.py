"""SVG drawing: boxes, arrows and text in a few named colors, for light and dark screens.

1. A picture has its own background, so it is legible on any page, in both color schemes.
2. Text is 15 units high in a picture 520 units wide: 10 pixels on a phone that is 390 pixels wide.
3. The same calls give the same bytes: no dates, no random numbers, and coordinates with one decimal.
"""

from collections.abc import Sequence
from typing import Literal
from xml.sax.saxutils import escape

WIDTH = 520
"""Width of every picture, in units."""
SHOWN_WIDTH = 680
"""Width in pixels at which a large screen shows a picture."""
TEXT = 15
"""Height of ordinary text, in units."""

Anchor = Literal["start", "middle", "end"]
Color = Literal["ours", "peer", "faint", "ink", "muted", "alert", "panel", "soft", "ground"]
Point = tuple[float, float]

LIGHT = {
    "ground": "#ffffff",
    "panel": "#eef3f3",
    "soft": "#cfe8e4",
    "ink": "#17302f",
    "muted": "#526665",
    "peer": "#7d8c8b",
    "faint": "#d5dddd",
    "ours": "#0b7a6f",
    "alert": "#b3470f",
}
DARK = {
    "ground": "#14201f",
    "panel": "#1f302f",
    "soft": "#1d4f49",
    "ink": "#e8f1f0",
    "muted": "#a9bab8",
    "peer": "#93a3a1",
    "faint": "#344745",
    "ours": "#35d0bb",
    "alert": "#f59e5b",
}


class Canvas:
    """Picture of *height* units. Screen readers read *title* and *description* aloud."""

    def __init__(self, height: float, title: str, description: str) -> None:
        self._height = height
        self._title = title
        self._description = description
        self._parts: list[str] = []

    def box(
        self,
        corner: Point,
        size: Point,
        lines: Sequence[str] = (),
        *,
        fill: Color = "panel",
        edge: Color = "peer",
        ink: Color = "ink",
        dashed: bool = False,
    ) -> None:
        """Draw a rounded box with *lines* of text in its center. The first of several lines is bold."""
        (x, y), (width, height) = corner, size
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect class="f-{fill} s-{edge}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
            f'rx="6" stroke-width="1.5"{dashes}/>'
        )
        first = y + height / 2 - (len(lines) - 1) * 9.5 + 5
        for number, line in enumerate(lines):
            bold = number == 0 and len(lines) > 1
            place = (x + width / 2, first + number * 19)
            self.text(place, line, anchor="middle", color=ink, bold=bold)

    def text(
        self,
        place: Point,
        words: str,
        *,
        anchor: Anchor = "start",
        color: Color = "ink",
        size: float = TEXT,
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text class="f-{color}" x="{_n(place[0])}" y="{_n(place[1])}" text-anchor="{anchor}" '
            f'font-size="{_n(size)}"{weight}>{escape(words)}</text>'
        )

    def line(self, points: Sequence[Point], *, color: Color = "peer", width: float = 1.5, dashed: bool = False) -> None:
        self._path(points, color, width, dashed=dashed, arrow=False)

    def arrow(
        self, points: Sequence[Point], *, color: Color = "peer", width: float = 1.8, dashed: bool = False
    ) -> None:
        """Draw an arrow through *points*."""
        self._path(points, color, width, dashed=dashed, arrow=True)

    def bar(self, corner: Point, size: Point, *, color: Color) -> None:
        """Draw a filled rectangle without an edge."""
        (x, y), (width, height) = corner, size
        self._parts.append(
            f'<rect class="f-{color}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"/>'
        )

    def dot(self, center: Point, *, radius: float = 3.5, color: Color = "peer") -> None:
        self._parts.append(f'<circle class="f-{color}" cx="{_n(center[0])}" cy="{_n(center[1])}" r="{_n(radius)}"/>')

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(self._height)}" width="{SHOWN_WIDTH}" '
            f'height="{_n(self._height * SHOWN_WIDTH / WIDTH)}" role="img" aria-labelledby="title description" '
            "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif\">"
        )
        texts = f'<title id="title">{escape(self._title)}</title>'
        texts += f'<desc id="description">{escape(self._description)}</desc>'
        style = f"<style>{_rules(LIGHT)} @media (prefers-color-scheme: dark) {{ {_rules(DARK)} }}</style>"
        ground = f'<rect class="f-ground" width="{WIDTH}" height="{_n(self._height)}" rx="10"/>'
        return "\n".join([head, texts, style, ground, *self._parts, "</svg>"]) + "\n"

    def _path(self, points: Sequence[Point], color: Color, width: float, *, dashed: bool, arrow: bool) -> None:
        drawn = "M" + " L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<path class="s-{color}" d="{drawn}" fill="none" stroke-width="{_n(width)}" '
            f'stroke-linejoin="round"{dashes}/>'
        )
        if arrow:
            self._head(points[-2], points[-1], color)

    def _head(self, before: Point, tip: Point, color: Color) -> None:
        across, down = tip[0] - before[0], tip[1] - before[1]
        length = (across**2 + down**2) ** 0.5
        ahead, aside = (across / length, down / length), (-down / length, across / length)
        left, right = (
            (tip[0] - 9 * ahead[0] + side * aside[0], tip[1] - 9 * ahead[1] + side * aside[1]) for side in (4.5, -4.5)
        )
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in (tip, left, right))
        self._parts.append(f'<polygon class="f-{color}" points="{corners}"/>')


def _rules(colors: dict[str, str]) -> str:
    return " ".join(f".f-{name} {{ fill: {color} }} .s-{name} {{ stroke: {color} }}" for name, color in colors.items())


def _n(number: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{round(number + 0.0, 1):g}" if abs(number) < 100_000 else str(round(number))
