"""Settings for counting limits and for fair-share scheduling."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Burst, Count, NotNegative, Positive, Share, TimeZone


class QuotaSettings(Group):
    burst: Burst = Field(
        default=0.1, description="share of a limit per minute that can be used at once, above 0 and at most 1"
    )
    cached_weight: Share = Field(
        default=0.1, description="weight of a cached prompt token in token limits. A computed token weighs 1."
    )
    time_zone: TimeZone = Field(
        default="UTC", description="time zone in which the days and months of budgets begin, e.g. Europe/Berlin"
    )
    default_output_tokens: Count = Field(
        default=512,
        description="tokens that limits per minute reserve for an answer until typical answer lengths are known, "
        "if the request sets no limit",
    )
    max_output_tokens: Count = Field(
        default=16_384,
        description="tokens that budgets reserve for an answer if neither the request nor the model limits its length",
    )
    budget_tolerance: NotNegative = Field(
        default=0.05, description="share by which a team can exceed a budget before its streams are stopped"
    )
    max_unreserved_minutes: Positive = Field(
        default=60,
        description="maximum number of tokens beyond their reservations that a team's running answers can have, as a "
        "multiple of its token limit per minute",
    )
    max_limits_per_team: Count = Field(
        default=20_000,
        description="number of limits in use of one team, about 1 kB each, beyond which no further end users and "
        "sessions of the team are counted and served",
    )


class QueueSettings(Group):
    max_waiting_per_team: Count = Field(
        default=1024, description="maximum number of waiting requests per team. Further requests get status 503."
    )
    low_share: Share = Field(
        default=0.1, description="minimum share of a saturated fleet for requests of lower priorities"
    )
    starvation_s: Positive = Field(
        default=30,
        description="seconds without service after which a team's oldest request gets the next higher priority",
    )
