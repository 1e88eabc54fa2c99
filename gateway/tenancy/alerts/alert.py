"""Alerts about budgets and about unusual spend, which operators receive."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal

import msgspec

from gateway.tenancy.quota.scope import Scope

AlertType = Literal["budget.threshold_reached", "spend.anomaly"]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Alert about one budget in one period, or about the spend of one team on one day."""

    id: str
    """Id of the alert. An alert that is sent twice has the same id."""
    type: AlertType
    time: str
    """Time at which the alert was recorded, in the form ``2026-11-21T08:00:00Z``."""
    team: str
    scope: Scope
    """Kind of the owner of the budget."""
    name: str
    """Name of the owner, or an empty string for requests that name no end user."""
    model: str | None
    """Model to which the budget applies, or None if it applies to all models together."""
    budget: str
    """Name of the limit, such as ``usd_per_month`` or ``soft_tokens_per_day``. For unusual spend, it is
    ``usual_usd_per_day``.
    """
    period: str
    """Day or month, such as ``2026-11-21`` or ``2026-11``."""
    limit: float
    """Amount of the budget, or the usual amount per day."""
    used: float
    """Units of the budget that were used or reserved when the alert was recorded."""
    threshold: float
    """Multiple of `limit` that was reached."""

    @property
    def text(self) -> str:
        """Sentence for people."""
        if self.type == "spend.anomaly":
            return (
                f"Team {self.name!r} has spent {amount(self.used)} USD on {self.period}, at least {self.threshold:g} "
                f"times its usual {amount(self.limit)} USD per day."
            )
        owner = f"{self.scope} {self.name[:64]!r}" if self.name else "requests without an end user"
        within = "" if self.scope == "team" else f" of team {self.team!r}"
        model = "" if self.model is None else f", model {self.model!r}"
        return (
            f"The budget {self.budget} of {owner}{within}{model} has reached {100 * self.threshold:g} % in "
            f"{self.period}: {amount(self.used)} of {amount(self.limit)} used."
        )


class NewAlert(msgspec.Struct, frozen=True, kw_only=True):
    """Alert to add to the store, with what identifies it."""

    alert: Alert
    mark: str
    """Text that is unique for the alert within its team and period."""
    until: float
    """Time after which no gateway can record the alert again, in seconds since 1970."""

    @property
    def body(self) -> bytes:
        """JSON of the alert."""
        return msgspec.json.encode(self.alert)

    @property
    def team(self) -> str:
        return self.alert.team

    @property
    def period(self) -> str:
        return self.alert.period

    @property
    def is_by_caller(self) -> bool:
        """Whether callers name the owner of the budget."""
        return self.alert.scope in {"user", "session"}


def amount(units: float) -> str:
    """Return *units* with at most two decimal digits, such as ``1,250`` or ``0.25``."""
    return f"{units:,.2f}".rstrip("0").rstrip(".")


def alert_id(*parts: str) -> str:
    """Return an id that only depends on *parts*."""
    return sha256("\n".join(parts).encode()).hexdigest()[:32]


def alert_time(now: float) -> str:
    """Return *now*, in seconds since 1970, in the form of `Alert.time`."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
