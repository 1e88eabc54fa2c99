"""Batches of teams, as their owners see them: created, read, listed and cancelled. `BatchRunner` runs them."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.batch.batch import ENDED, WINDOW_S, BatchInfo, TeamBatch, batch_in, cancelling, new_batch
from gateway.batch.files import Files, expiry_s
from gateway.batch.line_store import LineStore, Progress
from gateway.batch.plan import SERVED
from gateway.batch.records import RecordStore
from gateway.protocol.errors import Conflict, InvalidField, QuotaSpent, UnknownBatch

MAX_PAIRS: Final = 16
MAX_PAIR_KEY: Final = 64
MAX_PAIR_VALUE: Final = 512
ATTEMPTS: Final = 16
"""Maximum number of attempts to change a batch while gateways change it, too."""
_NEVER: Final = 1e15
"""Time after all others, in seconds since 1970."""
_FIELDS: Final = frozenset({"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"})


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Limits of batches, and how gateways share them."""

    max_team_batches: int
    """Maximum number of batches of a team that the store keeps."""
    keep_s: float
    """Seconds after its end for which a batch can be read."""
    max_in_flight_per_worker: int
    max_cache_share: float
    """Maximum share of a worker's cache that its lines in flight occupy."""
    raise_before_s: float
    """Seconds before the end of a batch from which on its lines no longer wait for idle workers."""
    lease_s: float
    """Seconds after which the lines of a gateway that was killed are claimed by others."""
    max_line_bytes: int
    max_lines: int
    max_enqueued_tokens: int | None = None
    """Maximum number of prompt tokens of the batches of a team for one model, or None without a limit."""
    model_enqueued_tokens: Mapping[str, int] = field(default_factory=dict)
    """Other limits for individual models."""
    interrupts: bool = True
    """Whether lines whose prompts a worker computes are interrupted for other requests."""
    model_interrupts: Mapping[str, bool] = field(default_factory=dict)
    """`interrupts` for individual models."""


class Batches:
    """Batches of all teams. Every method takes the team, and finds no batch of another team."""

    def __init__(
        self,
        store: RecordStore,
        lines: LineStore,
        files: Files,
        rules: BatchRules,
        *,
        wall_clock: Callable[[], float],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the collection. *on_change* is called after a batch was created or cancelled."""
        self._store = store
        self._lines = lines
        self._files = files
        self._rules = rules
        self._wall_clock = wall_clock
        self.on_change = on_change

    async def create(self, team: str, key: str, fields: Mapping[str, Any]) -> TeamBatch:
        """Create a batch of *team* from the *fields* of a request, which the API key *key* sent.

        Raises:
            InvalidField: if a field is invalid.
            UnknownFile: if the team has no such input file.
            QuotaSpent: if the team has too many batches.
            StoreUnavailable: if the store does not answer.
        """
        info = self._info(key, fields)
        file = await self._files.find(team, info.input_file_id, param="input_file_id")
        if file.info.purpose != "batch":
            raise InvalidField("'input_file_id' must name a file with the purpose 'batch'", param="input_file_id")
        batch = new_batch(f"batch_{secrets.token_hex(16)}", team, info)
        most = self._rules.max_team_batches
        if not await self._store.add(batch.record, max_count=most, max_size=0):
            text = f"The team has {most} batches, which is the limit (batches.max_team_batches). Retry later."
            raise QuotaSpent(text)
        self.on_change()
        return batch

    async def find(self, team: str, batch_id: str) -> tuple[TeamBatch, Progress]:
        """Return a batch of *team*, with the number of its finished lines.

        Raises:
            UnknownBatch: if the team has no such batch.
            StoreUnavailable: if the store does not answer.
        """
        record = await self._store.find(team, batch_id)
        if record is None:
            raise UnknownBatch(f"The batch {batch_id[:100]!r} does not exist", param="batch_id")
        batch = batch_in(record)
        return batch, await self._progress(batch)

    async def page(self, team: str, *, after: str | None, limit: int) -> tuple[list[tuple[TeamBatch, Progress]], bool]:
        """Return up to *limit* batches of *team* after the batch *after*, the newest first, and whether more follow.

        Raises:
            InvalidField: if the team has no batch *after*.
            StoreUnavailable: if the store does not answer.
        """
        page = await self._store.page(team, after=after, limit=limit + 1, newest_first=True)
        if page is None:
            raise InvalidField("'after' must be the id of a batch of the team", param="after")
        found = [batch_in(record) for record in page[:limit]]
        return [(batch, await self._progress(batch)) for batch in found], len(page) > limit

    async def cancel(self, team: str, batch_id: str) -> tuple[TeamBatch, Progress]:
        """Cancel a batch of *team*, and return it. Its lines in flight may still finish.

        Raises:
            UnknownBatch: if the team has no such batch.
            Conflict: if the batch has ended, or its files are being written.
            StoreUnavailable: if the store does not answer.
        """
        for _ in range(ATTEMPTS):
            batch, progress = await self.find(team, batch_id)
            status = batch.info.status
            if status in {"cancelling", "cancelled"}:
                return batch, progress
            if status in ENDED or status == "finalizing":
                raise Conflict(f"The batch cannot be cancelled, because its status is '{status}'")
            changed = batch.changed(cancelling(batch.info, self._wall_clock()), due_at=0.0)
            if await self._store.put(changed.record):
                self.on_change()
                return changed, progress
        raise Conflict("The batch changes too often at the moment. Retry.")

    async def of_all_teams(self, limit: int) -> tuple[list[tuple[TeamBatch, Progress]], bool]:
        """Return up to *limit* batches of all teams, and whether there are more. Batches that have not ended come
        first, then the newest.

        Raises:
            StoreUnavailable: if the store does not answer.
        """
        records = await self._store.due(_NEVER, limit + 1)
        found = [batch_in(record) for record in records[:limit]]
        found.sort(key=lambda batch: (batch.info.status in ENDED, -batch.info.created_at))
        return [(batch, await self._progress(batch)) for batch in found], len(records) > limit

    async def _progress(self, batch: TeamBatch) -> Progress:
        info = batch.info
        found = None if info.status in ENDED else await self._lines.progress(batch.ref)
        return Progress(info.total, info.completed, info.failed) if found is None else found

    def _info(self, key: str, fields: Mapping[str, Any]) -> BatchInfo:
        """Return the properties of a new batch.

        Raises:
            InvalidField: if a field is invalid.
        """
        for name in fields:
            if name not in _FIELDS:
                raise InvalidField(f"The field '{name[:100]}' is not known. Omit it.", param=name[:100])
        input_file_id, endpoint = fields.get("input_file_id"), fields.get("endpoint")
        if not isinstance(input_file_id, str) or not 1 <= len(input_file_id) <= 100:
            raise InvalidField("'input_file_id' must be the id of a file", param="input_file_id")
        if endpoint not in SERVED:
            raise InvalidField(f"'endpoint' must be one of {', '.join(SERVED)}", param="endpoint")
        if fields.get("completion_window") != "24h":
            raise InvalidField("'completion_window' must be '24h'", param="completion_window")
        now = int(self._wall_clock())
        return BatchInfo(
            endpoint=endpoint,
            input_file_id=input_file_id,
            key=key,
            created_at=now,
            expires_at=now + WINDOW_S,
            metadata=_metadata(fields.get("metadata")),
            output_expires_s=_output_expiry(fields.get("output_expires_after")),
        )


def _metadata(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > MAX_PAIRS:
        raise InvalidField(f"'metadata' must be an object with at most {MAX_PAIRS} entries", param="metadata")
    for key, text in value.items():
        if len(key) > MAX_PAIR_KEY or not isinstance(text, str) or len(text) > MAX_PAIR_VALUE:
            message = (
                f"'metadata' must have keys of at most {MAX_PAIR_KEY} characters, and values that are texts of at most "
                f"{MAX_PAIR_VALUE} characters"
            )
            raise InvalidField(message, param="metadata")
    return value


def _output_expiry(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidField("'output_expires_after' must be an object", param="output_expires_after")
    return expiry_s(value.get("anchor"), value.get("seconds"), "output_expires_after")
