"""Options for access to the gateway's store."""

from dataclasses import dataclass, field
from pathlib import Path

from gateway.tenancy.quota.meters import MAX_LIMITS
from gateway.tenancy.quota.share import Policy


class StoreAddressError(Exception):
    """The address of the store is invalid. The error text is a full sentence."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Place of a process at the table of limits that the processes of one gateway share."""

    descriptor: int
    seat: int


@dataclass(frozen=True, slots=True)
class StoreRules:
    """Options for a store in a file, in memory or in Redis."""

    file: Path | None
    """Path of the SQLite file, ``:memory:`` for a store in memory, or None for a store in Redis."""
    url: str = field(default="", repr=False)
    """URL of Redis, or an empty string for stores of other kinds."""
    pepper: bytes | None = field(default=None, repr=False)
    """Configured pepper (secret salt of digests), or None to use the pepper saved in the store."""
    embedded_lease_s: float = 2100.0
    """Maximum duration of a reservation in a SQLite store, in seconds."""
    lease_s: float = 30.0
    """Seconds without a heartbeat after which another gateway of the same store is considered dead."""
    max_limits: int = MAX_LIMITS
    """Number of limits of a team beyond which no further end users and sessions are counted."""
    table: TablePlace | None = None
    """Table of limits if several processes of one gateway use the file. The supervisor then holds the file's lock."""
    timeout_s: float = 0.5
    replicas: int = 1
    response_days: int = 30
    policy: Policy = field(default_factory=Policy)
    """Limits that apply while Redis is unavailable."""


def kind_of(rules: StoreRules) -> str:
    """Return the kind of store, either file or redis."""
    return "redis" if rules.file is None else "file"
