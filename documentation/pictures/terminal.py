"""Picture of terminal windows with commands and their output. The windows are dark on light and on dark screens."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from documentation.pictures.drawing import SHOWN_WIDTH, WIDTH

COLUMNS = 62
"""Number of characters in a line."""
_FONT, _ADVANCE, _LEADING = 13.0, 7.8, 18.5
"""Height of the letters, width of a letter, and distance between two lines, in units."""
_MARGIN, _TITLE = 18.0, 34.0
"""Distance of the text from the edge of a window, and height of the title bar, in units."""
_COLORS = {
    "window": "#10201f",
    "bar": "#1f302f",
    "plain": "#d7e3e1",
    "muted": "#9fb2b0",
    "command": "#ffffff",
    "mark": "#4fe0cb",
}
CUT = "…"
"""Line, or end of a line, that stands for text that is left out."""


@dataclass(frozen=True, slots=True)
class Window:
    """Terminal window with a title. Lines that start with ``$ `` or ``> `` are commands."""

    title: str
    lines: Sequence[str]


def terminal(windows: Sequence[Window], *, title: str, description: str, marked: Sequence[str] = ()) -> str:
    """Return the picture of *windows*. *title* and *description* are for screen readers.

    Lines that contain one of the texts in *marked* are highlighted. Output lines that are longer than `COLUMNS` are
    wrapped after a space or a comma, and longer commands are cut.
    """
    parts: list[str] = []
    top = 0.0
    for window in windows:
        lines = [part for line in window.lines for part in _parts(line)]
        height = _TITLE + 10 + len(lines) * _LEADING + 8
        parts += [
            f'<rect class="window" x="0" y="{top:g}" width="{WIDTH}" height="{height:g}" rx="10"/>',
            f'<rect class="bar" x="0" y="{top:g}" width="{WIDTH}" height="{_TITLE - 8:g}" rx="10"/>',
            _text("muted", _MARGIN, top + 18, window.title),
        ]
        baseline = top + _TITLE + 14
        for number, line in enumerate(lines):
            if line.strip():
                parts.append(_line(line, baseline + number * _LEADING, marked))
        top += height + 10
    return _svg(parts, top - 10, title, description)


def _parts(line: str) -> list[str]:
    """Return *line* in the lines that a window shows."""
    if len(line) <= COLUMNS:
        return [line]
    if line.startswith(("$ ", "> ")):
        return [line[: COLUMNS - 1].rstrip() + CUT]
    end = max(line.rfind(" ", 0, COLUMNS), line.rfind(",", 0, COLUMNS)) + 1 or COLUMNS
    return [line[:end].rstrip(), *_parts(line[end:])]


def _line(line: str, baseline: float, marked: Sequence[str]) -> str:
    kind = "plain"
    if line.startswith(("$ ", "> ")):
        kind = "command"
    elif any(text in line for text in marked):
        kind = "mark"
    elif line.strip() == CUT:
        kind = "muted"
    return _text(kind, _MARGIN, baseline, line)


def _text(kind: str, x: float, y: float, text: str) -> str:
    """Return a line of *text* that is as wide as its letters, whichever font the reader's machine has."""
    indent = len(text) - len(text.lstrip())
    shown = text.strip()
    width = f'textLength="{len(shown) * _ADVANCE:g}" lengthAdjust="spacingAndGlyphs"'
    place = f'x="{x + indent * _ADVANCE:g}" y="{y:g}"'
    return f'<text class="{kind}" {place} font-size="{_FONT:g}" {width}>{escape(shown)}</text>'


def _svg(parts: Sequence[str], height: float, title: str, description: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{SHOWN_WIDTH}" '
        f'height="{height * SHOWN_WIDTH / WIDTH:g}" role="img" aria-labelledby="title description" '
        "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">"
    )
    texts = f'<title id="title">{escape(title)}</title><desc id="description">{escape(description)}</desc>'
    rules = " ".join(f".{name} {{ fill: {color} }}" for name, color in _COLORS.items())
    style = f"<style>{rules} text {{ white-space: pre }}</style>"
    return "\n".join([head, texts, style, *parts, "</svg>"]) + "\n"
