"""Removed settings. A value that no longer changes anything is ignored with a warning. Other values are rejected."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.protocol.field_names import Place, dotted
from gateway.settings.faults import LONGEST_VALUE, kind_of
from gateway.settings.names import variable_of


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """Setting that was removed but that configuration files can still contain."""

    group: str
    name: str
    ignored: str | None
    """Value that is ignored with a warning, because it would no longer change anything."""
    reason: str
    """Reason for the removal of the setting, as a clause for error messages."""
    is_secret: bool = False
    """Whether error messages omit the value of the setting."""


REMOVED: Final = (
    RemovedSetting("server", "implementation", ignored="uvicorn", reason="the gateway serves with uvicorn only"),
    RemovedSetting(
        "server",
        "admin_token",
        ignored=None,
        reason="/warmgate/explain takes admin.keys, and /admin/v1/workers replaces /warmgate/workers",
        is_secret=True,
    ),
)
REMOVED_VARIABLES: Final = frozenset(variable_of((each.group, each.name)) for each in REMOVED)
"""Environment variables of the removed settings."""


_FALLBACK_GPU_HOUR = "this setting was removed: a fallback is priced by its tokens. Remove it."


def take_removed(data: dict[str, Any], environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Delete removed settings from *data*. Return warnings for ignored values, and error messages for others."""
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
                shown = "set" if removed.is_secret else _shown(value)
                faults.append(f"{name} is {shown}; this setting was removed: {removed.reason}. Remove it.")
    for at, price in _fallback_prices(data):
        value = price.pop("gpu_hour_usd")
        name = dotted((*at, "gpu_hour_usd"))
        if value is None:
            warnings.append(f"{name} is deprecated and has no effect: a fallback is priced by its tokens. Remove it.")
        else:
            faults.append(f"{name} is {_shown(value)}; {_FALLBACK_GPU_HOUR}")
    return warnings, faults


def _fallback_prices(data: Mapping[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the place and price of each fallback that is priced per GPU hour."""
    models = data.get("models")
    for i, model in enumerate(models if isinstance(models, list) else ()):
        if not isinstance(model, dict):
            continue
        fallbacks = model.get("fallbacks")
        groups: list[tuple[Place, Any]] = [(("models", i, "bedrock"), model.get("bedrock"))]
        for j, fallback in enumerate(fallbacks if isinstance(fallbacks, list) else ()):
            if isinstance(fallback, dict):
                groups += [(("models", i, "fallbacks", j, kind), group) for kind, group in fallback.items()]
        for place, group in groups:
            price = group.get("price") if isinstance(group, dict) else None
            if isinstance(price, dict) and "gpu_hour_usd" in price:
                yield (*place, "price"), price


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return kind_of(value)
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
