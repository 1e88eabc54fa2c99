"""Changes of settings that a running gateway can apply."""

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from gateway.protocol.field_names import Place, dotted
from gateway.settings.schema import Settings

FIXED: Final = (
    *("server", "routing", "index", "kv_events", "breaker", "retry", "drain", "logging", "kubernetes"),
    *("admin", "store", "replicas", "quota", "queue", "tracing", "advanced"),
)
"""Groups that count from the start on; not so `models`, `routes`, `adapters`, `teams`, `guardrails`, `timeouts`,
`health` and `bedrock`.
"""


@dataclass(frozen=True, slots=True)
class Change:
    settings: Settings
    """The settings that are to be in force."""
    needs_restart: tuple[str, ...]
    """Names of settings that were changed and are not among them."""


def applicable(running: Settings, wanted: Settings) -> Change:
    """Return the part of *wanted* that a gateway started with *running* can apply."""
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
