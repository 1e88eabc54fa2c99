"""The groups for how limits are counted and turns are given."""

from pydantic import Field

from gateway.settings.group import Group
from gateway.settings.rules import (
    Burst,
    Count,
    NotNegative,
    Positive,
    Share,
    TimeZone,
)


class QuotaSettings(Group):
    burst: Burst = Field(default=0.1, description="share of a minute's limit that may be used at once")
    cached_weight: Share = Field(
        default=0.1, description="what a cached prompt token weighs in limits of tokens, beside one that is computed"
    )
    time_zone: TimeZone = Field(default="UTC", description="whose days and months budgets have, e.g. Europe/Berlin")
    default_output_tokens: Count = Field(
        default=512, description="reserved for an answer until a model's lengths are learnt, where a request sets none"
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
    most_waiting_per_team: Count = Field(default=1024, description="requests of one team that are held; more get 503")
    low_share: Share = Field(default=0.1, description="of a saturated fleet that lower priorities get at least")
    starvation_s: Positive = Field(default=30, description="held for so long, a request counts as one class higher")
