"""Formats of times in responses."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Format *seconds* since 1970 as UTC time, such as ``2026-11-21T08:00:00Z``, with microseconds if they are not
    zero.
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def to_the_millisecond(seconds: float) -> str:
    """Format *seconds* since 1970 as UTC time with milliseconds. All results have equal length and sort by time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
