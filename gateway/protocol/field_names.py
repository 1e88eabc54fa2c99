"""Names of fields in nested data, as messages show them."""

import difflib
from collections.abc import Iterable

Place = tuple[str | int, ...]
"""Place of a value: names of fields, and numbers for the entries of a list."""


def dotted(place: Place) -> str:
    """Return ``("models", 0, "name")`` as ``models[0].name``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest of *names*; empty when none is near."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def listed(names: Iterable[str]) -> str:
    """Return *names* in quotes, with commas between them."""
    return ", ".join(repr(name) for name in names)
