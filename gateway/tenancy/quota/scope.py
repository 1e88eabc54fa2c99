"""Key or team that owns a limit."""

from dataclasses import dataclass
from typing import Literal

from gateway.tenancy.quota.limit import Limit
from gateway.tenancy.teams.limits import Measure

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
    """Limit with the key or team that owns it."""

    limit: Limit
    measure: Measure
    scope: Literal["key", "team"]
    name: str
    """Name of the key or team that owns the limit."""
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
        return f"{self.scope} {self.name}{model} on {_COUNTED[self.measure]}"
