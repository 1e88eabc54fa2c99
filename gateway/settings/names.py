"""What a setting is called: its place in the file, its variable, and the name that was meant when one is not known."""

import difflib
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "WARMGATE_"

Place = tuple[str | int, ...]
"""Where a setting is: names of fields, and numbers for the entries of a list."""


def dotted(place: Place) -> str:
    """``("models", 0, "name")`` as ``models[0].name``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def variable_of(place: Place) -> str:
    """``("models", 0, "name")`` as ``WARMGATE_MODELS__0__NAME``."""
    return PREFIX + "__".join(str(step).upper() for step in place)


def place_of(variable: str) -> Place:
    """The place that *variable* stands for, whether or not there is a setting."""
    segments = variable.removeprefix(PREFIX).lower().split("__")
    return tuple(int(segment) if segment.isdecimal() else segment for segment in segments)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that suggests the nearest of *names*; empty when none is near."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
