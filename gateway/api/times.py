"""Times as answers have them."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """*seconds* since 1970 in UTC, ``2026-11-21T08:00:00Z``; to the microsecond where there is more."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def to_the_millisecond(seconds: float) -> str:
    """*seconds* since 1970 in UTC, as the ledger and the audit log have them: of one length, so that they sort."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
