"""Ring of the latest receipts, in compact form and with a fixed maximum number."""

from collections.abc import Callable

from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.receipts.record import Packer, Record


class ReceiptFilter:
    """Conditions that a receipt must meet. A condition that is None is met by all receipts."""

    __slots__ = ("error", "max_status", "min_duration_s", "min_status", "model", "session", "since", "team", "worker")

    def __init__(
        self,
        *,
        team: str | None = None,
        model: str | None = None,
        worker: str | None = None,
        session: str | None = None,
        error: str | None = None,
        min_status: int = 0,
        max_status: int = 999,
        min_duration_s: float = 0.0,
        since: float = 0.0,
    ) -> None:
        self.team = team
        self.model = model
        self.worker = worker
        """Backend that answered the request or was tried last."""
        self.session = None if session is None else session.encode("utf-8", "surrogatepass")
        self.error = error
        self.min_status = min_status
        self.max_status = max_status
        self.min_duration_s = min_duration_s
        self.since = since
        """Earliest start of the request, in seconds since 1970."""

    def matches(self, record: Record) -> bool:
        """Return whether *record* meets all conditions."""
        return (
            (self.team is None or record.team == self.team)
            and (self.model is None or record.model == self.model)
            and (self.worker is None or record.backend == self.worker)
            and (self.session is None or record.session == self.session)
            and (self.error is None or record.error == self.error)
            and self.min_status <= record.status <= self.max_status
            and record.duration_s >= self.min_duration_s
            and record.began_at >= self.since
        )


class ReceiptRing:
    """Observer of completed requests that keeps the latest *size* receipts. A new receipt replaces the oldest one.

    Receipts are numbered from 0 in the order in which the requests completed.
    """

    def __init__(self, size: int, *, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        """Create an empty ring. *clock* returns monotonic seconds, and *wall_clock* seconds since 1970."""
        assert size > 0, "a ring without room keeps nothing"
        self._size = size
        self._clock = clock
        self._wall_clock = wall_clock
        self._packer = Packer()
        self._records: list[Record] = []
        self.total = 0
        """Number of receipts since startup, including those that are no longer kept. It is the next number."""

    def __len__(self) -> int:
        return len(self._records)

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Keep the receipts of *completed* requests."""
        offset_s = self._wall_clock() - self._clock()
        records, packer, size = self._records, self._packer, self._size
        for each in completed:
            record = packer.record(each.exchange, each.at, each.exchange.started + offset_s)
            if len(records) < size:
                records.append(record)
            else:
                records[self.total % size] = record
            self.total += 1

    def find(self, request_id: bytes) -> tuple[int, Record] | None:
        """Return the latest record of the request *request_id* and its number, or None if none is kept. O(size), 10 ns
        per record.
        """
        for number in range(self.total - 1, self.total - len(self._records) - 1, -1):
            record = self._records[number % self._size]
            if record.request_id == request_id:
                return number, record
        return None

    def newest(
        self, wanted: ReceiptFilter, *, limit: int, before: int | None = None, after: int = -1
    ) -> list[tuple[int, Record]]:
        """Return at most *limit* records that match *wanted*, latest first, each with its number. O(size).

        Only records with a number lower than *before* and higher than *after* are considered.
        """
        found: list[tuple[int, Record]] = []
        end = self.total if before is None else min(before, self.total)
        start = max(after + 1, self.total - len(self._records))
        for number in range(end - 1, start - 1, -1):
            record = self._records[number % self._size]
            if wanted.matches(record):
                found.append((number, record))
                if len(found) >= limit:
                    break
        return found
