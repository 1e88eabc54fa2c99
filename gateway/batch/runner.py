"""Run all batches: validate them, run their lines, write their files, and delete old batches.

Every gateway of a store runs this. One gateway at a time validates or finalizes a batch, which it holds by a lease. All
gateways run lines of a batch in progress.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from gateway.batch.batch import ENDED, BatchInfo, TeamBatch, batch_in, begun, ended, failed, finalizing
from gateway.batch.batch_files import BatchFiles
from gateway.batch.batches import BatchRules
from gateway.batch.contents import ContentWriter, LocalContent
from gateway.batch.counters import BatchCounters
from gateway.batch.enqueued import EnqueuedTokens
from gateway.batch.events import BatchEvents
from gateway.batch.files import FileInfo, Files
from gateway.batch.line_runner import LineRunner
from gateway.batch.line_store import BatchRef, LineResult, LineStore, Progress
from gateway.batch.plan import LineFault, PlanJob, Planned
from gateway.batch.records import Record, RecordStore
from gateway.batch.results import usage_of, write_files
from gateway.protocol.errors import ClientError, ContentMissing, FilesUnavailable, StoreUnavailable, UnknownFile

_log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Seconds between two looks for batches that other gateways or callers changed."""
AGAIN_S: Final = 5.0
"""Seconds until work that failed is repeated."""
DUE: Final = 100
"""Maximum number of batches that one gateway works on at the same time."""
READ: Final = 1000
"""Number of results to read from the store at once."""
_LINES_PER_S: Final = 1000
"""Number of lines whose results one gateway writes to files in a second, at least."""
_MISSING: Final = {
    "completed": ("batch_incomplete", "The line has no result."),
    "expired": ("batch_expired", "The batch expired before the line was answered."),
    "cancelled": ("batch_cancelled", "The batch was cancelled before the line was answered."),
}

Planner = Callable[[PlanJob, LocalContent, ContentWriter], Coroutine[Any, Any, Planned]]
"""Function that validates a content, and writes the order of its lines."""
ModelCheck = Callable[[TeamBatch, str], None]
"""Function that raises a ClientError if lines of a batch may not use a model."""
LineRunners = Callable[[TeamBatch, BatchFiles], LineRunner]
"""Function that returns a runner for the lines of a batch."""


class BatchRunner:
    """Runs the batches in *store*. `run` must run as a task of the gateway."""

    def __init__(
        self,
        store: RecordStore,
        lines: LineStore,
        files: Files,
        rules: BatchRules,
        *,
        planner: Planner,
        check_model: ModelCheck,
        enqueued: EnqueuedTokens | None = None,
        line_runner: LineRunners,
        events: BatchEvents,
        counters: BatchCounters,
        wall_clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._lines = lines
        self._files = files
        self._rules = rules
        self._planner = planner
        self._check_model = check_model
        self._enqueued = enqueued
        self._line_runner = line_runner
        self._events = events
        self._counters = counters
        self._wall_clock = wall_clock
        self._me = secrets.token_hex(8)
        self._active: set[str] = set()
        self._unreadable: set[str] = set()
        """Batches whose files could not be read, which was logged."""
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Look for changed batches at once."""
        self._changed.set()

    async def run(self) -> None:
        """Run batches until canceled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                with suppress(StoreUnavailable):
                    for record in await self._store.due(self._wall_clock(), DUE):
                        if record.id not in self._active and len(self._active) < DUE:
                            self._active.add(record.id)
                            tasks.create_task(self._work(record))
                await self._wait()

    async def _wait(self) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._changed.wait()

    async def _work(self, record: Record) -> None:
        """Do what the batch of *record* needs next. An error is logged, and the work is repeated later."""
        try:
            await self._step(batch_in(record))
            self._unreadable.discard(record.id)
        except ContentMissing as fault:
            self._note_unreadable(record.id, fault)
            await asyncio.sleep(AGAIN_S)
        except (StoreUnavailable, FilesUnavailable) as fault:
            _log.warning("batch %s has to wait: %s", record.id, fault)
            await asyncio.sleep(AGAIN_S)
        except Exception:  # noqa: BLE001  # one batch must not end the others
            _log.exception("batch %s has to wait after an error", record.id)
            await asyncio.sleep(AGAIN_S)
        finally:
            self._active.discard(record.id)

    def _note_unreadable(self, batch_id: str, fault: ContentMissing) -> None:
        """Log once that contents of a batch are missing."""
        if batch_id not in self._unreadable:
            if len(self._unreadable) >= DUE:
                self._unreadable.clear()
            self._unreadable.add(batch_id)
            text = "batch %s has to wait: its files cannot be read: %s. All gateways must see the same files."
            _log.warning(text, batch_id, fault)

    async def _step(self, batch: TeamBatch) -> None:
        if batch.info.status in ENDED:
            if batch.info.event_due:
                await self._announce(batch)
            elif batch.record.due_at <= self._wall_clock():  # otherwise, another gateway ended it a moment ago
                await self._remove(batch)
        elif batch.info.status == "in_progress":
            await self._run_lines(batch)
        elif (held := await self._hold(batch)) is not None:
            if batch.info.status == "validating":
                await self._validate(held)
            else:
                await self._finalize(held)

    async def _hold(self, batch: TeamBatch) -> TeamBatch | None:
        """Return the batch held by this gateway, or None if another gateway holds or has changed it."""
        now = self._wall_clock()
        # Should the lease end too early, two gateways write the same, and the first of them ends the batch.
        lease_s = self._rules.lease_s + batch.info.total / _LINES_PER_S
        held = batch.held(self._me, now=now, until=now + lease_s)
        return held if held is not None and await self._store.put(held.record) else None

    async def _validate(self, batch: TeamBatch) -> None:
        info = batch.info
        files = self._batch_files(batch)
        try:
            uploaded = await self._files.find(batch.team, info.input_file_id)
        except UnknownFile:
            fault = LineFault("input_file_missing", "The input file does not exist any more", "input_file_id", None)
            await self._fail(batch, [fault])
            return
        await files.copy_input(uploaded.id)
        planned = await self._planned(info, files)
        faults = planned.faults or list(self._model_faults(batch, planned))
        if not faults and self._enqueued is not None:
            counted = await self._enqueue(batch, self._enqueued, planned)
            if counted is None:
                return
            batch, faults = counted
            info = batch.info
        if faults:
            await files.clear()
            await self._fail(batch, faults)
            return
        await self._lines.begin(batch.ref, planned.total)
        await self._put(batch.changed(begun(info, planned.total, list(planned.models), self._wall_clock())))

    async def _planned(self, info: BatchInfo, files: BatchFiles) -> Planned:
        """Validate the input file of a batch, and keep the order of its lines if it is valid."""
        rules, plan = self._rules, files.plan_writer()
        job = PlanJob("", info.endpoint, rules.max_lines, rules.max_line_bytes)
        try:
            async with files.contents.local([files.input]) as found:
                planned = await self._planner(job, found[files.input], plan)
            if not planned.faults:
                await plan.keep()
        finally:
            await plan.discard()
        return planned

    async def _enqueue(
        self, batch: TeamBatch, enqueued: EnqueuedTokens, planned: Planned
    ) -> tuple[TeamBatch, list[LineFault]] | None:
        """Count the tokens of *batch* against its limits. Return the batch and the faults, or None if it was changed.

        The batch records its tokens first, so that they are released however it ends.
        """
        tokens = enqueued.tokens(planned.prompt_bytes)
        if not tokens:
            return batch, []
        batch = batch.changed(msgspec.structs.replace(batch.info, enqueued=tokens))
        if not await self._store.put(batch.record):
            return None
        fault = await enqueued.reserve(batch.id, batch.team, tokens)
        return batch, [] if fault is None else [fault]

    async def _release(self, batch: TeamBatch) -> None:
        """Release the tokens of a batch that is about to end."""
        if self._enqueued is not None and batch.info.enqueued:
            await self._enqueued.release(batch.id, batch.team, batch.info.enqueued)

    def _model_faults(self, batch: TeamBatch, planned: Planned) -> Iterator[LineFault]:
        for model, line in planned.models.items():
            try:
                self._check_model(batch, model)
            except ClientError as fault:
                yield LineFault(fault.code or "invalid_request", fault.message, "body.model", line)

    async def _fail(self, batch: TeamBatch, faults: list[LineFault]) -> None:
        await self._release(batch)
        await self._put_ended(batch, failed(batch.info, faults, self._wall_clock()))

    async def _run_lines(self, batch: TeamBatch) -> None:
        """Run lines until all are finished, or the batch is cancelled, or its time is over."""
        runner = self._line_runner(batch, self._batch_files(batch))
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._stop_in_time(batch, runner))
                await runner.run()
                watching.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        record = await self._store.find(batch.team, batch.id)
        progress = await self._lines.progress(batch.ref)
        if record is None or progress is None or batch_in(record).info.status != "in_progress":
            return
        batch, now = batch_in(record), self._wall_clock()
        if progress.is_done or now >= batch.info.expires_at:
            end = finalizing(batch.info, "completed" if progress.is_done else "expired", now)
            await self._put(batch.changed(end))

    async def _stop_in_time(self, batch: TeamBatch, runner: LineRunner) -> None:
        """Stop *runner* when the batch is no longer in progress, or its time is over."""
        while self._wall_clock() < batch.info.expires_at:
            await asyncio.sleep(LOOK_S)
            with suppress(StoreUnavailable):
                record = await self._store.find(batch.team, batch.id)
                if record is None or batch_in(record).info.status != "in_progress":
                    break
        runner.stop()

    async def _finalize(self, batch: TeamBatch) -> None:
        """Write the files of the batch, and end it."""
        info = batch.info
        progress = await self._lines.progress(batch.ref)
        if progress is None:  # cancelled before its lines were known
            nothing = ended(
                info, Progress(0, 0, 0), usage_of(()), output_file_id=None, error_file_id=None, now=self._wall_clock()
            )
            await self._end(batch, nothing)
            return
        await self._lines.close(batch.ref)
        results = await self._results(batch.ref, progress.total)
        output, errors = (self._file_id(batch.id, kind) for kind in ("output", "error"))
        written = await write_files(
            *(batch.id, self._batch_files(batch), results),
            total=progress.total,
            output=output,
            errors=errors,
            missing=_MISSING[info.end],
        )
        await self._add(batch, output, "output", written.output_bytes, written.output_lines)
        await self._add(batch, errors, "error", written.error_bytes, written.error_lines)
        finished = sum(result.ok for result in results.values())
        final = ended(
            info,
            Progress(progress.total, finished, len(results) - finished),
            usage_of(results.values()),
            output_file_id=output if written.output_lines else None,
            error_file_id=errors if written.error_lines else None,
            now=self._wall_clock(),
        )
        await self._end(batch, final)

    async def _results(self, batch: BatchRef, total: int) -> dict[int, LineResult]:
        found: dict[int, LineResult] = {}
        for start in range(0, total, READ):
            found |= await self._lines.results(batch, start, min(total, start + READ))
        return found

    async def _add(self, batch: TeamBatch, file_id: str, kind: str, size: int, lines: int) -> None:
        if not lines:
            return
        now = int(self._wall_clock())
        keep_s = batch.info.output_expires_s or int(self._files.rules.keep_s)
        info = FileInfo(f"{batch.id}_{kind}.jsonl", "batch_output", size, lines, now, now + keep_s)
        await self._files.add(batch.team, file_id, info, is_limited=False)

    async def _end(self, batch: TeamBatch, info: BatchInfo) -> None:
        await self._release(batch)
        if await self._put_ended(batch, info):
            await self._clean(batch)

    async def _put_ended(self, batch: TeamBatch, info: BatchInfo) -> bool:
        """Replace *batch* with its last state *info*. The batch stays due if its event must be stored."""
        now, event_due = self._wall_clock(), self._events.are_wanted(batch.team)
        last = msgspec.structs.replace(info, event_due=event_due)
        written = await self._put(batch.changed(last, due_at=now if event_due else now + self._rules.keep_s))
        self._counters.ended[info.status] += written
        return written

    async def _announce(self, batch: TeamBatch) -> None:
        """Store the event of a batch that has ended. Two gateways that do it store one event."""
        await self._events.add(batch)
        known = msgspec.structs.replace(batch.info, event_due=False)
        await self._store.put(batch.changed(known, due_at=self._wall_clock() + self._rules.keep_s).record)

    async def _remove(self, batch: TeamBatch) -> None:
        """Delete a batch that ended long ago."""
        await self._clean(batch)
        await self._store.remove(batch.team, batch.id)

    async def _clean(self, batch: TeamBatch) -> None:
        await self._lines.forget(batch.ref)
        await self._batch_files(batch).clear()

    async def _put(self, batch: TeamBatch) -> bool:
        written = await self._store.put(batch.record)
        self.look()
        return written

    def _batch_files(self, batch: TeamBatch) -> BatchFiles:
        return BatchFiles(self._files.contents, batch.id)

    def _file_id(self, batch_id: str, kind: str) -> str:
        """Return the id of a file of the batch. It is the same if the file is written again after a crash."""
        return f"file-{hashlib.sha256(f'{batch_id} {kind}'.encode()).hexdigest()[:32]}"
