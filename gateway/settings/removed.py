"""Settings that were removed: a value that says what is now always so is ignored with a warning, others are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.settings.faults import LONGEST_VALUE, kind_of
from gateway.settings.names import dotted, variable_of


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """A setting in a group, as configurations may still have it."""

    group: str
    name: str
    ignored: str
    """The value that changes nothing."""
    reason: str
    """Why other values have no meaning."""


REMOVED: Final = (
    RemovedSetting("server", "implementation", ignored="uvicorn", reason="the gateway serves with uvicorn only"),
)
REMOVED_VARIABLES: Final = frozenset(variable_of((each.group, each.name)) for each in REMOVED)
"""Their variables."""


def take_removed(data: dict[str, Any], environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Take removed settings out of *data*; return a warning for each that is ignored, a sentence for each fault."""
    warnings: list[str] = []
    faults: list[str] = []
    for removed in REMOVED:
        place = (removed.group, removed.name)
        variable = variable_of(place)
        given: list[tuple[str, Any]] = []
        group = data.get(removed.group)
        if isinstance(group, dict) and removed.name in group:
            group = data[removed.group] = dict(group)
            given.append((dotted(place), group.pop(removed.name)))
        if variable in environ:
            given.append((f"{variable} ({dotted(place)})", environ[variable]))
        for name, value in given:
            if value == removed.ignored:
                warnings.append(f"{name} is deprecated and has no effect: {removed.reason}. Remove this setting.")
            else:
                faults.append(f"{name} is {_shown(value)}; this setting was removed: {removed.reason}. Remove it.")
    return warnings, faults


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return kind_of(value)
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
