"""The groups for the counting of limits and for fair-share scheduling."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Burst, Count, NotNegative, Positive, Share, TimeZone


class QuotaSettings(Group):
    burst: Burst = Field(default=0.1, description="share of a minute's limit that may be used at once")
    cached_weight: Share = Field(
        default=0.1, description="weight of a cached prompt token in limits of tokens; a computed one weighs 1"
    )
    time_zone: TimeZone = Field(
        default="UTC", description="time zone of the days and months of budgets, e.g. Europe/Berlin"
    )
    default_output_tokens: Count = Field(
        default=512, description="reserved for an answer until a model's lengths are learned, where a request sets none"
    )
    max_output_tokens: Count = Field(
        default=16_384, description="reserved of budgets for an answer that neither its request nor its model limits"
    )
    budget_tolerance: NotNegative = Field(
        default=0.05, description="share of a budget by which it may be passed before streams of its team are stopped"
    )
    max_unreserved_minutes: Positive = Field(
        default=60,
        description="amounts of a limit of tokens per minute that answers of a team may have beyond what was reserved",
    )


class QueueSettings(Group):
    max_waiting_per_team: Count = Field(default=1024, description="waiting requests of one team; more are answered 503")
    low_share: Share = Field(default=0.1, description="smallest share of a saturated fleet for lower priorities")
    starvation_s: Positive = Field(
        default=30, description="waiting time after which a request counts as one priority higher"
    )
