"""Moments and durations as logs and the ledger tell them, at a tenth of what strftime and round take."""

from typing import Final

MILLISECONDS: Final = tuple(f".{ms:03d}Z" for ms in range(1000))
"""What follows the second in a time of RFC 3339, in UTC."""
_TENTHS: Final = tuple(f".{tenth}" for tenth in range(10))
_SHORT: Final = tuple(f"{tenths // 10}.{tenths % 10}" for tenths in range(1000))
"""Durations below 100 ms, which most are."""


def tenths_of_ms(seconds: float) -> float:
    """In milliseconds, of which one digit behind the point is kept."""
    return int(seconds * 10_000.0 + 0.5) / 10.0


def tenths_as_json(seconds: float) -> str:
    """`tenths_of_ms` of what is at least 0, as JSON has it: ``12.0``."""
    tenths = int(seconds * 10_000.0 + 0.5)
    if 0 <= tenths < len(_SHORT):
        return _SHORT[tenths]
    return f"{tenths // 10}{_TENTHS[tenths % 10]}"
