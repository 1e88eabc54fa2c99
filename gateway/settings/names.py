"""Names of settings: the place in the file and the variable."""

from typing import Final

from gateway.protocol.field_names import Place

PREFIX: Final = "WARMGATE_"


def variable_of(place: Place) -> str:
    """``("models", 0, "name")`` as ``WARMGATE_MODELS__0__NAME``."""
    return PREFIX + "__".join(str(step).upper() for step in place)


def place_of(variable: str) -> Place:
    """The place that *variable* stands for, whether or not there is a setting."""
    segments = variable.removeprefix(PREFIX).lower().split("__")
    return tuple(int(segment) if segment.isdecimal() else segment for segment in segments)
