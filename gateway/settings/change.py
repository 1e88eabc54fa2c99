"""Changes of settings that a running gateway can apply without a restart."""

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from gateway.protocol.field_names import Place, dotted
from gateway.settings.schema import Settings

FIXED: Final = (
    *("server", "routing", "index", "kv_events", "breaker", "retry", "drain", "logging", "kubernetes"),
    *("admin", "console", "picker", "store", "replicas", "quota", "queue", "tracing", "request_shapes", "files"),
    *("batches", "response_cache", "identity", "alerts", "advanced"),
)
"""Groups of settings that take effect only after a restart. Changes in all other groups are applied at once."""


@dataclass(frozen=True, slots=True)
class Change:
    settings: Settings
    """Settings to apply now."""
    needs_restart: tuple[str, ...]
    """Names of the changed settings that take effect only after a restart."""


def applicable(running: Settings, wanted: Settings) -> Change:
    """Return the changes in *wanted* that a gateway that started with *running* can apply without a restart."""
    settings = _keeping(wanted, running, *FIXED)
    if settings.routing.lease_s < settings.timeouts.total_s:
        # The lease that is in force would end before the answers that are to be allowed.
        settings = _keeping(settings, running, "timeouts")
    changed = [place for group in Settings.model_fields for place in _differences(settings, wanted, group)]
    return Change(settings, tuple(map(dotted, changed)))


def _keeping(settings: Settings, running: Settings, *groups: str) -> Settings:
    return settings.model_copy(update={group: getattr(running, group) for group in groups})


def _differences(settings: Settings, wanted: Settings, group: str) -> list[Place]:
    one, other = getattr(settings, group), getattr(wanted, group)
    if not isinstance(one, BaseModel):
        return []  # the models, which can always be applied
    return [(group, name) for name in type(one).model_fields if getattr(one, name) != getattr(other, name)]
