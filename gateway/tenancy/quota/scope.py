"""Owner of a limit: a key, an end user, a session, a project or a team."""

from dataclasses import dataclass
from typing import Literal

from gateway.protocol.request_hints import name_digest
from gateway.tenancy.quota.limit import Limit
from gateway.tenancy.teams.limits import Measure

Scope = Literal["key", "user", "session", "project", "team"]
"""Kind of the owner of a limit."""

_NAMED = ("user:", "session:")
"""Beginnings of the ids of limits whose owners callers name."""

MAX_SHOWN = 64
"""Maximum number of characters of the name of an end user or session in a message."""

_COUNTED: dict[Measure, str] = {
    "requests_per_minute": "requests per min (RPM)",
    "input_tokens_per_minute": "input tokens per min",
    "output_tokens_per_minute": "output tokens per min",
    "tokens_per_minute": "tokens per min (TPM)",
    "concurrent": "concurrent requests",
    "tokens_per_day": "tokens per day (TPD)",
    "usd_per_day": "US dollars per day",
    "usd_per_month": "US dollars per month",
}


@dataclass(frozen=True, slots=True)
class Scoped:
    """Limit with its owner."""

    limit: Limit
    measure: Measure
    scope: Scope
    name: str
    """Name of the owner. It is empty for requests that name no end user."""
    model: str | None
    """Model to which the limit applies, or None if the limit applies to all models together."""

    @property
    def label(self) -> str:
        """Metric label of the limit, such as ``key/tokens_per_minute`` or ``team/model/concurrent``. It contains no
        names, because names would create too many time series.
        """
        scope = self.scope if self.model is None else f"{self.scope}/model"
        return f"{scope}/{self.measure}"

    @property
    def text(self) -> str:
        """Description of the limit for messages, such as ``key ci on tokens per min (TPM)``."""
        model = "" if self.model is None else f" for model {self.model}"
        return f"{self._owner}{model} on {_COUNTED[self.measure]}"

    @property
    def _owner(self) -> str:
        if self.scope == "user":  # names that callers choose are quoted and shortened
            return f"end user {self.name[:MAX_SHOWN]!r}" if self.name else "requests without an end user"
        return f"session {self.name[:MAX_SHOWN]!r}" if self.scope == "session" else f"{self.scope} {self.name}"


def is_named_by_callers(limit_id: str) -> bool:
    """Return whether the limit with the id *limit_id* has an owner whom callers name: an end user or a session."""
    return limit_id.startswith(_NAMED)


def limit_id(scope: Scope, name: str, model: str | None, measure: Measure) -> str:
    """Return the id of a limit. Names that callers choose are replaced by a digest, so that ids are short and no name
    can stand for another owner.
    """
    is_chosen = scope in {"user", "session"} and name
    owner = f"{scope}:{name_digest(name)}" if is_chosen else f"{scope}:{name}"
    return f"{owner}/{measure}" if model is None else f"{owner}/model:{model}/{measure}"
