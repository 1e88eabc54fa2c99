"""Records of files and batches that teams own, in the store of the gateway. Several gateways can share the records."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

Kind = Literal["file", "batch", "enqueued"]


@dataclass(frozen=True, slots=True)
class Record:
    """One file or batch in the store."""

    id: str
    team: str
    due_at: float
    """Time at which the record needs work, in seconds since 1970. A time that has passed means work at once."""
    size: int
    """Bytes that count against the limit of the team."""
    row: bytes
    """JSON object with the properties of the file or batch."""
    version: int = 1
    """Number of writes. A write of an outdated version is refused."""

    def changed(self, row: bytes, *, due_at: float | None = None) -> "Record":
        """Return the next version of the record, with *row* as its content."""
        due_at = self.due_at if due_at is None else due_at
        return replace(self, row=row, due_at=due_at, version=self.version + 1)


class RecordStore(Protocol):
    """Store of the records of one kind. All methods raise StoreUnavailable if the store does not answer."""

    async def add(self, record: Record, *, max_count: int, max_size: int) -> bool:
        """Add *record*, and return whether the team has room for it. An existing record with the same id stays as it
        is, and the result is true.

        A team has room if it then has at most *max_count* records with *max_size* bytes in all.
        """
        ...

    async def find(self, team: str, record_id: str) -> Record | None:
        """Return the record of *team* with the id *record_id*, or None. Records of other teams are not found."""
        ...

    async def page(self, team: str, *, after: str | None, limit: int, newest_first: bool) -> list[Record] | None:
        """Return up to *limit* records of *team* in the order in which they were added, or in reverse.

        The page begins after the record *after*. Return None if the team has no such record.
        """
        ...

    async def put(self, record: Record) -> bool:
        """Replace the previous version of *record*, and return whether it was replaced.

        The result is false if another writer replaced or removed the previous version.
        """
        ...

    async def remove(self, team: str, record_id: str) -> bool:
        """Remove a record of *team*, and return whether it existed."""
        ...

    async def due(self, now: float, limit: int) -> list[Record]:
        """Return up to *limit* records of all teams that are due at *now*, in seconds since 1970."""
        ...
