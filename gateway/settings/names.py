"""Names of settings, as places in the configuration file and as environment variables."""

from typing import Final

from gateway.protocol.field_names import Place

PREFIX: Final = "WARMGATE_"


def variable_of(place: Place) -> str:
    """Return the environment variable for the setting at *place*, such as ``WARMGATE_MODELS__0__NAME``."""
    return PREFIX + "__".join(str(step).upper() for step in place)


def place_of(variable: str) -> Place:
    """Return the place of the setting that the variable *variable* names, whether or not the setting exists."""
    segments = variable.removeprefix(PREFIX).lower().split("__")
    return tuple(int(segment) if segment.isdecimal() else segment for segment in segments)
