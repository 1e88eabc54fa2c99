"""Values by which the store of a gateway is reached and used."""

from dataclasses import dataclass, field
from pathlib import Path

from gateway.tenancy.quota.share import Policy


class StoreAddressError(Exception):
    """The address of the store cannot be used; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class StoreRules:
    """A store in a file, in memory, or in Redis."""

    file: Path | None
    """None: the store is in Redis. The path ``:memory:`` is memory."""
    url: str = field(default="", repr=False)
    """Address of Redis."""
    pepper: bytes | None = field(default=None, repr=False)
    """None: the store keeps its own."""
    embedded_lease_s: float = 2100.0
    """Longest time of a reservation in a file."""
    lease_s: float = 30.0
    """Silence that makes a gateway which shares the store count as dead."""
    timeout_s: float = 0.5
    replicas: int = 1
    response_days: int = 30
    policy: Policy = field(default_factory=Policy)
    """Limits that hold while Redis is unavailable."""
