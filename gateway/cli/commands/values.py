"""Parsers that convert option values to the format of the admin API.

Each parser raises `argparse.ArgumentTypeError` for an invalid value, and argparse adds the option's name to the
message.
"""

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, get_args

from gateway.tenancy.teams.limits import Measure, SoftMeasure

_API_NAMES = {"max_concurrent_requests": "concurrent"}
"""Names of limits in the admin API, by their names in the settings, if the two names differ."""
_SETTING_NAMES = {name: setting for setting, name in _API_NAMES.items()}
MEASURES: tuple[str, ...] = tuple(
    _SETTING_NAMES.get(name, name) for name in (*get_args(Measure), *get_args(SoftMeasure))
)
"""Names of limits as in the settings. Options also accept the names of the admin API."""
NONE = "none"
"""Option value that removes a limit or an expiry."""

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LONGEST_S = 100 * 366 * 86400


class LimitValue(NamedTuple):
    name: str | None
    """Model or project to which the limit applies, or None if the limit applies to all of them together."""
    measure: str
    amount: int | float | None
    """Value of the limit, or None to remove the limit."""


def limit(text: str) -> LimitValue:
    """Parse a limit such as ``requests_per_minute=600`` or ``max_concurrent_requests=none``."""
    measure, separator, amount = text.partition("=")
    if not separator:
        raise ArgumentTypeError(f"{text!r} is not a limit such as requests_per_minute=600")
    if measure not in MEASURES and measure not in _SETTING_NAMES:
        raise ArgumentTypeError(f"{measure!r} is not one of {', '.join(MEASURES)}")
    value = None if amount == NONE else _amount(measure, amount)
    return LimitValue(None, _API_NAMES.get(measure, measure), value)


def model_limit(text: str) -> LimitValue:
    """Parse a model limit such as ``tiny:tokens_per_minute=10000``. Only the model name can contain further colons."""
    return _limit_of(text, f"{text!r} is not a model limit such as MODEL:tokens_per_minute=10000")


def project_limit(text: str) -> LimitValue:
    """Parse a project limit such as ``search:tokens_per_minute=10000``."""
    return _limit_of(text, f"{text!r} is not a project limit such as PROJECT:tokens_per_minute=10000")


def _limit_of(text: str, refusal: str) -> LimitValue:
    place, equals, amount = text.partition("=")
    name, separator, measure = place.rpartition(":")
    if not (equals and separator and name):
        raise ArgumentTypeError(refusal)
    return limit(f"{measure}={amount}")._replace(name=name)


def duration_s(text: str) -> float:
    """Parse a duration such as ``90s``, ``15m``, ``12h``, ``30d``, ``2w`` or ``90`` and return it in seconds."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([smhdw]?)", text, re.ASCII)
    seconds = float(found[1]) * _UNITS_S[found[2] or "s"] if found else -1.0
    if not 0 <= seconds <= _LONGEST_S:
        raise ArgumentTypeError(f"{text!r} is not a duration such as 90s, 15m, 12h or 30d")
    return seconds


def alternative(text: str) -> dict[str, str | int | float]:
    """Parse an alternative of a what-if replay such as ``strategy=kv_aware,workers=4,cache_factor=2``."""
    found: dict[str, str | int | float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name == "strategy" and value:
            found[name] = value
        elif name in ("workers", "cache_tokens"):
            found[name] = at_least_one(value)
        elif name == "cache_factor":
            found[name] = positive(value)
        else:
            raise ArgumentTypeError(
                f"{text!r} is not an alternative such as strategy=kv_aware,workers=4,cache_factor=2"
            )
    return found


class Expiry(NamedTuple):
    """Expiry of an API key, as a duration or as a point in time. A key without both never expires."""

    after_s: float | None = None
    at: str | None = None

    def at_time(self, now: float) -> str | None:
        """Return the expiry in RFC 3339 format, or None if the key never expires. *now* is in seconds since 1970."""
        if self.after_s is None:
            return self.at
        ends = datetime.fromtimestamp(now, UTC) + timedelta(seconds=self.after_s)
        return ends.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def expiry(text: str) -> Expiry:
    """Parse an expiry: ``30d`` from now, the UTC day ``2026-12-31``, ``2026-12-31T12:00:00+01:00`` or ``never``."""
    if text in ("never", NONE):
        return Expiry()
    try:
        return Expiry(after_s=duration_s(text))
    except ArgumentTypeError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is not an expiry such as 30d, 2026-12-31, 2026-12-31T12:00:00Z or never"
        ) from None
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return Expiry(at=aware.isoformat().replace("+00:00", "Z"))


def month(text: str) -> str:
    """Return *text* if it is a month in the format ``2026-11``."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text, re.ASCII):
        raise ArgumentTypeError(f"{text!r} is not a month such as 2026-11")
    return text


def day(text: str) -> str:
    """Return *text* if it is a date in the format ``2026-11-21``."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
            datetime.fromisoformat(text)
            return text
    except ValueError:
        pass
    raise ArgumentTypeError(f"{text!r} is not a day such as 2026-11-21")


def at_least_one(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _amount(measure: str, text: str) -> int | float:
    if measure.removeprefix("soft_").startswith("usd"):
        return positive(text)
    if not re.fullmatch(r"\d{1,15}", text, re.ASCII) or int(text) == 0:
        raise ArgumentTypeError(f"{measure} is {text!r}; the value must be a positive whole number or 'none'")
    return int(text)
