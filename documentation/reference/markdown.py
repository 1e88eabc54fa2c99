"""Markdown for generated pages: tables, and the note that names the generating command."""

from collections.abc import Iterable, Sequence
from typing import Final

COMMAND: Final = ".venv/bin/python -m documentation.reference"
NOTE: Final = f"<!-- Generated: change the code, then run `{COMMAND}`. -->"


def page(title: str, *parts: str) -> str:
    """Return a page with *title* and *parts*, which blank lines separate."""
    return "\n\n".join((f"# {title}", NOTE, *(part.strip("\n") for part in parts if part))) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Line breaks and vertical bars in cells are made safe."""
    lines = [_line(columns), "|" + "---|" * len(columns)]
    lines += [_line(row) for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """Return *text* as inline code, or an empty cell if it is empty."""
    return f"`{text}`" if text else ""


def sentence(text: str) -> str:
    """Return *text* with an upper-case first letter and a full stop."""
    text = " ".join(text.split())
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
