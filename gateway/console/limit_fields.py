"""Limits of teams and keys in forms and tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.console.admin_client import AdminRefused
from gateway.console.formats import count, usd
from gateway.console.forms import Form


@dataclass(frozen=True, slots=True)
class LimitField:
    name: str
    """Name in the admin API."""
    label: str
    show: Callable[[float | None], str] = count

    @property
    def is_usd(self) -> bool:
        """Whether the limit is an amount of money, which can have a fraction."""
        return self.show is usd


LIMITS: Final = (
    LimitField("requests_per_minute", "Requests per minute"),
    LimitField("input_tokens_per_minute", "Input tokens per minute"),
    LimitField("output_tokens_per_minute", "Output tokens per minute"),
    LimitField("tokens_per_minute", "Tokens per minute"),
    LimitField("concurrent", "Concurrent requests"),
    LimitField("tokens_per_day", "Tokens per day"),
    LimitField("usd_per_day", "US dollars per day", usd),
    LimitField("usd_per_month", "US dollars per month", usd),
    LimitField("soft_tokens_per_day", "Warn above tokens per day"),
    LimitField("soft_tokens_per_month", "Warn above tokens per month"),
    LimitField("soft_usd_per_day", "Warn above US dollars per day", usd),
    LimitField("soft_usd_per_month", "Warn above US dollars per month", usd),
)
LABELS: Final = {each.name: each for each in LIMITS}


def limits_in(form: Form) -> dict[str, float | int | None]:
    """Return the limits in *form* by name. An empty field stands for no limit, and a field that is absent is left out.

    Raises:
        AdminRefused: if a value is not a number.
    """
    return {each.name: _number(each, form[each.name].strip()) for each in LIMITS if each.name in form}


def _number(field: LimitField, text: str) -> float | int | None:
    if not text:
        return None
    try:
        value = float(text) if field.is_usd else int(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        kind = "an amount such as 12.50" if field.is_usd else "a whole number"
        raise AdminRefused(400, f"The limit {field.label!r} must be {kind}, or empty for no limit.")
    return value
