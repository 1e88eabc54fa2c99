"""Numbers and times as the pages of the console show them, with their units."""

from datetime import UTC, datetime
from typing import Final

MISSING: Final = "–"
"""Text for a value that is not known."""
_DURATIONS: Final = (
    (0.01, 1e-3, "{:.1f} ms"),
    (1.0, 1e-3, "{:.0f} ms"),
    (10.0, 1.0, "{:.1f} s"),
    (120.0, 1.0, "{:.0f} s"),
    (7200.0, 60.0, "{:.0f} min"),
    (172_800.0, 3600.0, "{:.1f} h"),
)
"""Forms of durations: the limit below which a form is used, its unit in seconds, and the text. Days are beyond."""


def count(value: float | None) -> str:
    """Return a number with three significant digits at most, e.g. 950, 1.2 k or 34 M."""
    if value is None:
        return MISSING
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            scaled = value / (limit if limit != 1e4 else 1e3)
            return f"{scaled:.1f}{unit}" if abs(scaled) < 100 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.1f}"


def rate(value: float | None) -> str:
    """Return a number per second."""
    return MISSING if value is None else f"{count(value)}/s"


def seconds(value: float | None) -> str:
    """Return a duration, e.g. 0.4 ms, 120 ms, 1.5 s, 4 min, 2.5 h or 7.4 days."""
    if value is None:
        return MISSING
    if value < 0:
        return f"-{seconds(-value)}"
    if value == 0:
        return "0 s"
    for limit, unit_s, form in _DURATIONS:
        if value < limit:
            return form.format(value / unit_s)
    return f"{value / 86_400:.1f} days"


def percent(value: float | None) -> str:
    """Return a share from 0 to 1 as a percentage."""
    return MISSING if value is None else f"{value * 100:.1f} %"


def change(value: float | None) -> str:
    """Return a relative difference as a percentage with its sign, e.g. +12 % or -3.4 %."""
    if value is None:
        return MISSING
    return f"{value * 100:+.0f} %" if abs(value) >= 0.1 else f"{value * 100:+.1f} %"


def usd(value: float | None) -> str:
    """Return an amount in US dollars. Small amounts have more digits."""
    if value is None:
        return MISSING
    if value < 0:
        return f"-{usd(-value)}"
    if value and abs(value) < 0.01:
        return f"${value:.5f}"
    return f"${value:,.2f}"


def size(value: float | None) -> str:
    """Return a number of bytes, e.g. 512 B, 1.5 MiB."""
    if value is None:
        return MISSING
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(value) >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"


def time_of_day(value: float | None) -> str:
    """Return the UTC time of day of *value* in seconds since 1970."""
    return MISSING if value is None else datetime.fromtimestamp(value, UTC).strftime("%H:%M:%S")


def moment(value: str | float | None) -> str:
    """Return a time as date and time of day in UTC. *value* is in RFC 3339 format, or in seconds since 1970."""
    if value is None:
        return MISSING
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else datetime.fromtimestamp(value, UTC)
    except ValueError:
        return str(value)
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


FORMATS: Final = {
    "count": count,
    "rate": rate,
    "seconds": seconds,
    "percent": percent,
    "change": change,
    "usd": usd,
    "size": size,
    "time_of_day": time_of_day,
    "moment": moment,
}
"""Functions of this module that templates use as filters."""
