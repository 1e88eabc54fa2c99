"""Names of fields in nested data, in the form for error messages."""

import difflib
from collections.abc import Iterable

Place = tuple[str | int, ...]
"""Path of a value in nested data. It consists of field names, and of indexes for entries of lists."""


def dotted(place: Place) -> str:
    """Return a path as text, such as ``models[0].name`` for ``("models", 0, "name")``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a suggestion to append to an error message about *name*, or an empty string if no name in *names* is
    similar.
    """
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def listed(names: Iterable[str]) -> str:
    """Return *names* in quotation marks, separated by commas."""
    return ", ".join(repr(name) for name in names)
