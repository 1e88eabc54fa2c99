"""Times and durations as text for logs and the ledger. The functions take a tenth of the time of ``strftime`` and
``round``.
"""

from typing import Final

MILLISECONDS: Final = tuple(f".{ms:03d}Z" for ms in range(1000))
"""Texts for the fraction of a second with the UTC suffix, as in RFC 3339, indexed by milliseconds."""
_TENTHS: Final = tuple(f".{tenth}" for tenth in range(10))
_SHORT: Final = tuple(f"{tenths // 10}.{tenths % 10}" for tenths in range(1000))
"""Texts for durations below 100 ms, indexed by tenths of a millisecond. Most durations are in this range."""


def tenths_of_ms(seconds: float) -> float:
    """Return *seconds* as milliseconds with one decimal digit."""
    return int(seconds * 10_000.0 + 0.5) / 10.0


def tenths_as_json(seconds: float) -> str:
    """Return *seconds*, which must not be negative, as milliseconds for JSON with one decimal, such as ``12.0``."""
    tenths = int(seconds * 10_000.0 + 0.5)
    if 0 <= tenths < len(_SHORT):
        return _SHORT[tenths]
    return f"{tenths // 10}{_TENTHS[tenths % 10]}"
