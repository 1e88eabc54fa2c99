"""How much one scope may use: the words of the settings, the admin API and the store are the fields."""

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
"""What a limit counts, and over what time."""

SoftMeasure = Literal["soft_tokens_per_day", "soft_tokens_per_month", "soft_usd_per_day", "soft_usd_per_month"]
"""What a soft budget counts: it warns, and refuses nothing."""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a key, of a team, or of one model within either; None: there is none."""

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
