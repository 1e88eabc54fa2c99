"""Ledger record that has not been written yet, with the day to which it belongs."""

from collections.abc import Callable
from typing import Final

from cache_index.native import mypyc_attr
from gateway.tenancy.ledger.record import Outcome, UsageRecord

NANO: Final = 1_000_000_000
"""Number of nano-dollars per dollar. A cached token of a small model costs about 10 nano-dollars, and 64 bits can
represent nine billion dollars.
"""


@mypyc_attr(acyclic=True)
class Entry:
    """Immutable fields of a `UsageRecord`, with money in whole nano-dollars.

    This is a class with slots and not a Struct because every request creates one; see `gateway.tenancy.quota.limit`.
    """

    __slots__ = (
        "backend",
        "cached_tokens",
        "completion_tokens",
        "cost_nano",
        "day",
        "duration_ms",
        "fell_back",
        "key",
        "model",
        "model_asked",
        "outcome",
        "project",
        "prompt_tokens",
        "request_id",
        "saved_nano",
        "status",
        "team",
        "time",
        "ttft_ms",
        "user",
    )

    def __init__(
        self,
        *,
        day: str,
        time: str,
        request_id: str,
        team: str,
        project: str | None,
        key: str,
        user: str | None,
        model_asked: str,
        model: str,
        backend: str | None,
        outcome: Outcome,
        status: int,
        prompt_tokens: int,
        cached_tokens: int,
        completion_tokens: int,
        cost_nano: int,
        saved_nano: int,
        fell_back: bool,
        ttft_ms: float | None,
        duration_ms: float,
    ) -> None:
        self.day = day
        """Calendar day in the configured time zone, in the form ``2026-11-21``."""
        self.time = time
        self.request_id = request_id
        self.team = team
        self.project = project
        self.key = key
        self.user = user
        self.model_asked = model_asked
        self.model = model
        self.backend = backend
        self.outcome: Outcome = outcome
        self.status = status
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = cached_tokens
        self.completion_tokens = completion_tokens
        self.cost_nano = cost_nano
        self.saved_nano = saved_nano
        self.fell_back = fell_back
        self.ttft_ms = ttft_ms
        self.duration_ms = duration_ms

    @classmethod
    def from_record(cls, day: str, record: UsageRecord) -> "Entry":
        """Return *record* as a ledger entry for *day*."""
        return Entry(
            day=day,
            time=record.time,
            request_id=record.request_id,
            team=record.team,
            project=record.project,
            key=record.key,
            user=record.user,
            model_asked=record.model_asked,
            model=record.model,
            backend=record.backend,
            outcome=record.outcome,
            status=record.status,
            prompt_tokens=record.prompt_tokens,
            cached_tokens=record.cached_tokens,
            completion_tokens=record.completion_tokens,
            cost_nano=round(record.cost_usd * NANO),
            saved_nano=round(record.saved_usd * NANO),
            fell_back=record.fell_back,
            ttft_ms=record.ttft_ms,
            duration_ms=record.duration_ms,
        )

    def row(self) -> tuple[object, ...]:
        """Return the record's fields in the order of `FIELDS`, in which stores keep them."""
        return (
            self.time,
            self.request_id,
            self.team,
            self.project,
            self.key,
            self.user,
            self.model_asked,
            self.model,
            self.backend,
            self.outcome,
            self.status,
            self.prompt_tokens,
            self.cached_tokens,
            self.completion_tokens,
            self.cost_nano / NANO,
            self.saved_nano / NANO,
            self.fell_back,
            self.ttft_ms,
            self.duration_ms,
        )

    @property
    def record(self) -> UsageRecord:
        """Return the entry as a `UsageRecord`, with money in US dollars."""
        return UsageRecord(
            time=self.time,
            request_id=self.request_id,
            team=self.team,
            project=self.project,
            key=self.key,
            user=self.user,
            model_asked=self.model_asked,
            model=self.model,
            backend=self.backend,
            outcome=self.outcome,
            status=self.status,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_nano / NANO,
            saved_usd=self.saved_nano / NANO,
            fell_back=self.fell_back,
            ttft_ms=self.ttft_ms,
            duration_ms=self.duration_ms,
        )

    def __call__(self) -> "Entry":
        """Return the ledger entry unchanged, so that a finished entry can be used as a `Draft`."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.day == other.day and self.row() == other.row()

    def __hash__(self) -> int:
        return hash((self.day, self.row()))

    def __repr__(self) -> str:
        return f"Entry(day={self.day!r}, record={self.record!r})"


Draft = Callable[[], Entry | None]
"""Function that creates a ledger entry from the data recorded at the end of the request, or returns None for a request
without an entry. The writer can call drafts in any thread, one batch after another.
"""


def no_entry() -> None:
    """Return no ledger entry, as the `Draft` of a request whose entry is written elsewhere."""
