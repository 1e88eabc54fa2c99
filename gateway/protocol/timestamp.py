"""Times and durations as text for logs and the ledger, in a tenth of the time of strftime and round."""

from typing import Final

MILLISECONDS: Final = tuple(f".{ms:03d}Z" for ms in range(1000))
"""Fraction and zone after the seconds of a time of RFC 3339, in UTC."""
_TENTHS: Final = tuple(f".{tenth}" for tenth in range(10))
_SHORT: Final = tuple(f"{tenths // 10}.{tenths % 10}" for tenths in range(1000))
"""Texts of durations below 100 ms, which are most."""


def tenths_of_ms(seconds: float) -> float:
    """Return *seconds* in milliseconds with one decimal."""
    return int(seconds * 10_000.0 + 0.5) / 10.0


def tenths_as_json(seconds: float) -> str:
    """Return `tenths_of_ms` of *seconds*, which are not negative, as JSON: ``12.0``."""
    tenths = int(seconds * 10_000.0 + 0.5)
    if 0 <= tenths < len(_SHORT):
        return _SHORT[tenths]
    return f"{tenths // 10}{_TENTHS[tenths % 10]}"
