"""Formatting of rows as text columns."""

from collections.abc import Mapping, Sequence
from typing import Any

_NONE = "-"


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return *rows* as aligned text with a header line.

    Numeric columns are right-aligned, and every line ends in a newline.
    """
    cells = [[text_of(row.get(column)) for column in columns] for row in rows]
    at_right = [_is_of_numbers([row.get(column) for row in rows]) for column in columns]
    lines = [[column.replace("_", " ").upper() for column in columns], *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "".join(_line(line, widths, at_right) for line in lines)


def card(entity: Mapping[str, Any]) -> str:
    """Return one line for each field of *entity*, without fields that are None or empty."""
    said = {name: text_of(value) for name, value in entity.items() if value not in (None, [], {})}
    width = max(map(len, said), default=0)
    return "".join(f"{name.replace('_', ' '):{width}}  {value}\n" for name, value in said.items())


def text_of(value: Any) -> str:
    """Return *value* as the text of a table cell, with unprintable characters replaced by a question mark."""
    if value is None or value in ([], {}):
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        text = ", ".join(f"{name}={text_of(inner)}" for name, inner in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(map(text_of, value))
    else:
        text = str(value)
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_of_numbers(values: Sequence[Any]) -> bool:
    """Return whether all values except None are numbers, and there is at least one number."""
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there)


def _line(cells: Sequence[str], widths: Sequence[int], at_right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, at_right, strict=True)
    )
    return "  ".join(padded).rstrip() + "\n"
