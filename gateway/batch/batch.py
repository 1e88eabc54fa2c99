"""A batch: its properties in the store, and its states.

validating -> in_progress -> finalizing -> completed
validating -> failed                        the input file has faults
in_progress -> finalizing -> expired        the time of the batch is over
validating, in_progress -> cancelling -> cancelled
"""

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from gateway.batch.line_store import BatchRef, Progress
from gateway.batch.plan import LineFault
from gateway.batch.records import Record

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
End = Literal["completed", "expired", "cancelled"]

ENDED: Final[frozenset[Status]] = frozenset({"failed", "completed", "expired", "cancelled"})
WINDOW_S: Final = 86_400
"""Seconds within which the lines of a batch run: the completion window of 24 hours."""


class BatchUsage(msgspec.Struct, frozen=True):
    """Tokens of all answered lines of a batch."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


class BatchInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Properties of a batch, as the store has them. Times are in seconds since 1970."""

    endpoint: str
    input_file_id: str
    key: str
    """Id of the API key that created the batch, for which its lines run."""
    created_at: int
    expires_at: int
    status: Status = "validating"
    metadata: dict[str, str] | None = None
    output_expires_s: int | None = None
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: list[LineFault] = []
    models: list[str] = []
    """Models that the lines name."""
    total: int = 0
    completed: int = 0
    failed: int = 0
    usage: BatchUsage | None = None
    end: End = "completed"
    """State in which the batch ends after finalizing."""
    holder: str = ""
    """Gateway that validates or finalizes the batch, or an empty string."""
    held_until: float = 0.0
    """Time at which the lease of the holder ends."""
    enqueued: dict[str, int] = {}
    """Prompt tokens that count against limits of enqueued tokens until the batch ends, by model."""
    event_due: bool = False
    """Whether the batch has ended, and the event for webhooks may not be stored yet."""


@dataclass(frozen=True, slots=True)
class TeamBatch:
    """Batch of a team, as it was read from the store."""

    record: Record
    info: BatchInfo

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def team(self) -> str:
        return self.record.team

    @property
    def ref(self) -> BatchRef:
        """Name of the batch in the store of lines."""
        return BatchRef(self.team, self.id)

    def changed(self, info: BatchInfo, *, due_at: float | None = None) -> "TeamBatch":
        """Return the next version of the batch, with the properties *info*."""
        return TeamBatch(self.record.changed(msgspec.json.encode(info), due_at=due_at), info)

    def is_raised(self, now: float, *, before_s: float) -> bool:
        """Return whether the batch ends within *before_s* seconds."""
        return now >= self.info.expires_at - before_s

    def held(self, holder: str, *, now: float, until: float) -> "TeamBatch | None":
        """Return the batch held by *holder* until *until*, or None if another gateway holds it at *now*."""
        info = self.info
        if info.holder not in {"", holder} and info.held_until > now:
            return None
        return self.changed(msgspec.structs.replace(info, holder=holder, held_until=until))


def batch_in(record: Record) -> TeamBatch:
    """Return the batch that *record* describes."""
    return TeamBatch(record, msgspec.json.decode(record.row, type=BatchInfo))


def new_batch(batch_id: str, team: str, info: BatchInfo) -> TeamBatch:
    """Return a new batch of *team*, which is due at once."""
    return TeamBatch(Record(batch_id, team, 0.0, 0, msgspec.json.encode(info)), info)


def failed(info: BatchInfo, faults: list[LineFault], now: float) -> BatchInfo:
    """Return *info* after a validation that found *faults*."""
    return msgspec.structs.replace(info, status="failed", failed_at=int(now), errors=faults, holder="")


def begun(info: BatchInfo, total: int, models: list[str], now: float) -> BatchInfo:
    """Return *info* after a validation that found *total* lines for *models*, and no fault."""
    return msgspec.structs.replace(
        info, status="in_progress", in_progress_at=int(now), total=total, models=models, holder=""
    )


def finalizing(info: BatchInfo, end: End, now: float) -> BatchInfo:
    """Return *info* after the last line, or after the time of the batch. Then its files are written."""
    return msgspec.structs.replace(info, status="finalizing", finalizing_at=int(now), end=end)


def cancelling(info: BatchInfo, now: float) -> BatchInfo:
    """Return *info* after its owner has cancelled it."""
    return msgspec.structs.replace(info, status="cancelling", cancelling_at=int(now), end="cancelled", holder="")


def ended(
    info: BatchInfo,
    progress: Progress,
    usage: BatchUsage,
    *,
    output_file_id: str | None,
    error_file_id: str | None,
    now: float,
) -> BatchInfo:
    """Return *info* in its last state, with the ids of the files that were written."""
    return msgspec.structs.replace(
        info,
        status=info.end,
        completed_at=int(now) if info.end == "completed" else None,
        expired_at=int(now) if info.end == "expired" else None,
        cancelled_at=int(now) if info.end == "cancelled" else None,
        output_file_id=output_file_id,
        error_file_id=error_file_id,
        completed=progress.completed,
        failed=progress.failed,
        usage=usage,
        holder="",
    )
