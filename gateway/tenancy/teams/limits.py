"""Limits of a team or key. The names of the fields are equal in the settings, the admin API and the store."""

from typing import Literal

import msgspec

Measure = Literal[
    "requests_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "tokens_per_minute",
    "concurrent",
    "tokens_per_day",
    "usd_per_day",
    "usd_per_month",
]
"""Names of limits. Each name says what is counted, and over what time."""

SoftMeasure = Literal["soft_tokens_per_day", "soft_tokens_per_month", "soft_usd_per_day", "soft_usd_per_month"]
"""Names of soft budgets, which warn and never refuse. Each name says what is counted, and over what time."""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits of a key, of a team, or of one model within a key or team. The value None means that there is no limit."""

    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None
    tokens_per_day: int | None = None
    usd_per_day: float | None = None
    usd_per_month: float | None = None
    soft_tokens_per_day: int | None = None
    soft_tokens_per_month: int | None = None
    soft_usd_per_day: float | None = None
    soft_usd_per_month: float | None = None
