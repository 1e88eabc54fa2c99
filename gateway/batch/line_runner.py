"""Run the lines of one batch in this gateway, as long as the batch is in progress."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from cache_index import WorkerId
from gateway.batch.answer_length import AnswerLength, AskedAnswer
from gateway.batch.batch import TeamBatch
from gateway.batch.batch_files import BatchFiles
from gateway.batch.claimed_lines import ClaimedLines
from gateway.batch.counters import BatchCounters
from gateway.batch.identity import Urgency
from gateway.batch.interruptions import LOOK_S, Interrupted
from gateway.batch.lane import Lane, Place
from gateway.batch.line_call import App, LineAnswer, answered, output_of, result_of
from gateway.batch.line_store import LineStore
from gateway.batch.plan import BatchLine, PlannedLine
from gateway.batch.ranges import NO_WORKER
from gateway.batch.results import request_id_of
from gateway.protocol.errors import ContentMissing, FilesUnavailable, InvalidKey, StoreUnavailable
from gateway.protocol.interruption import Interruption
from gateway.tenancy.teams.caller import Caller

MAX_SLOTS: Final = 256
"""Maximum number of lines of one batch that run at the same time in one gateway."""
CLAIMED: Final = 8
"""Maximum number of lines to claim at once. They are neighbors, so their prompts often begin alike."""
ATTEMPTS: Final = 3
"""Number of attempts at a line if workers fail."""
MAX_WAIT_S: Final = 60.0
"""Maximum seconds until a line that had to wait is tried again."""
UNCACHED: Final = ("/v1/embeddings",)
"""Endpoints whose prompts engines do not cache, so that an interrupted line would lose its work."""
IDLE_S: Final = 1.0
"""Seconds until the next look for lines whose gateway was killed, if no other lines are left."""
FILES_AGAIN_S: Final = 5.0
"""Seconds until the next attempt if the storage of contents does not answer."""
FINISHING: Final = 64
"""Maximum number of answers of one batch that wait in one gateway until they are stored."""


class Identity(Protocol):
    """Callers of batches."""

    def caller(self, key: str, team: str, urgency: Urgency) -> Caller:
        """Return the caller for lines of batches of the key *key*.

        Raises:
            InvalidKey: if the key does not exist any more, or is no longer valid.
        """
        ...

    def lend(self, secret: str, caller: Caller) -> None: ...

    def take_back(self, secret: str) -> None: ...


@dataclass(slots=True)
class _Turn:
    """Line that has a place."""

    place: Place
    planned: PlannedLine
    asked: AskedAnswer
    follows: bool
    """Whether the line before ran on the same worker last."""
    former: Interrupted | None = None
    """The line as it was interrupted, or None if it was not."""

    def step_bytes(self, worker: WorkerId | None) -> float:
        """Return the bytes of the prompt that *worker* is expected to compute."""
        if self.former is not None and self.former.worker == worker:
            return self.former.step
        return self.planned.step_bytes if self.follows else self.planned.prompt_bytes

    @property
    def interruptions(self) -> int:
        """Number of interruptions of the line."""
        return 0 if self.former is None else self.former.count

    @property
    def may_interrupt(self) -> bool:
        """Whether the line may be interrupted (again)."""
        return self.former is None or self.former.may_repeat


_T = TypeVar("_T")
_asked_in = msgspec.json.Decoder(AskedAnswer).decode


class LineRunner:
    """Runs lines of *batch* until `stop` is called or no line is left."""

    def __init__(
        self,
        batch: TeamBatch,
        files: BatchFiles,
        *,
        app: App,
        lines: LineStore,
        lane: Lane,
        counters: BatchCounters,
        identity: Identity,
        lease_s: float,
        raise_before_s: float,
        wall_clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._batch = batch
        self._files = files
        self._app = app
        self._lines = lines
        self._lane = lane
        self._length = AnswerLength()
        self._counters = counters
        self._identity = identity
        self._lease_s = lease_s
        self._raise_before_s = raise_before_s
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._owner = secrets.token_hex(8)
        self._secret = f"batch-{secrets.token_hex(32)}"
        self._callers: dict[Urgency, Caller] = {}
        """Callers to whom secrets were lent."""
        self._claimed = ClaimedLines(lines, batch.ref, self._owner, lease_s=lease_s, wall_clock=wall_clock)
        self._caches_prompts = batch.info.endpoint not in UNCACHED
        self._outputs = files.appender(self._owner)
        self._room = asyncio.Semaphore(FINISHING)
        self._finishing: set[asyncio.Task[None]] = set()
        """Answers that are being stored. Meanwhile their slots run other lines."""
        self._stopped = asyncio.Event()
        self._waiting: set[asyncio.Task[Any]] = set()
        """Slots that wait until a line may start."""

    def stop(self) -> None:
        """Start no more lines. `run` returns as soon as the lines in flight have ended."""
        self._stopped.set()
        for slot in self._waiting:
            slot.cancel()

    async def run(self) -> None:
        """Run lines until all lines of the batch have a result, or until `stop` is called.

        Raises:
            StoreUnavailable: if a claim or a result could not be written. The lines run again later.
            FilesUnavailable: if contents of the batch are missing, or could not be read or written until `stop`.
        """
        count = max(1, min(MAX_SLOTS, self._lane.slots, self._batch.info.total))
        try:
            await self._run_slots(count)
        finally:
            for urgency in self._callers:
                self._identity.take_back(self._secret + urgency)
            await self._outputs.close()

    async def _run_slots(self, count: int) -> None:
        """Run *count* slots. The first error of a slot ends all of them."""
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew())
                claimed = max(1, min(CLAIMED, self._batch.info.total // (4 * count)))
                slots = [tasks.create_task(self._slot(claimed, tasks)) for _ in range(count)]
                await asyncio.gather(*slots)
                await self._all_finished()
                renewing.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _renew(self) -> None:
        while True:
            await self._sleep(self._lease_s / 3)
            with suppress(StoreUnavailable):  # the lease then ends, and the lines run again elsewhere
                await self._claimed.renew()

    async def _slot(self, count: int, tasks: asyncio.TaskGroup) -> None:
        """Run lines one after the other. Each gets a place first, because each worker has lines of its own."""
        while not self._stopped.is_set():
            place = await self._enter(self._batch.info.models)
            if place is None:
                return
            try:
                number = await self._claimed.next(_worker_of(place), count)
            except BaseException:
                self._lane.leave(place)
                raise
            if number is not None:
                await self._run_at(place, number, tasks)
                continue
            self._lane.leave(place)
            await self._all_finished()
            progress = await self._lines.progress(self._batch.ref)
            if progress is None or progress.is_done:
                return
            await self._pause(IDLE_S)

    async def _run_at(self, place: Place, number: int, tasks: asyncio.TaskGroup) -> None:
        """Run the line *number* at *place*, which this method gives back."""
        held: Place | None = place
        follows = self._claimed.follows(_worker_of(place), number)
        try:
            planned, line = await self._until_stored(lambda: self._files.line(number))
            asked = _asked_in(bytes(line.body))
            if not self._lane.serves(place, asked.model):  # a file can name several models
                self._lane.leave(place)
                held = await self._enter([asked.model])
            if held is not None:
                given, held = held, None
                former = self._claimed.interruption(number)
                await self._run_line(number, line, _Turn(given, planned, asked, follows, former), tasks)
        finally:
            if held is not None:
                self._lane.leave(held)

    async def _run_line(self, number: int, line: BatchLine, turn: _Turn, tasks: asyncio.TaskGroup) -> None:
        answer = await self._answer(line, request_id_of(self._batch.id, number), turn)
        if answer is None:
            return
        if isinstance(answer, Interrupted):
            self._claimed.put_back(number, answer)
            return
        await self._room.acquire()
        finishing = tasks.create_task(self._finish(number, line, answer))
        self._finishing.add(finishing)
        finishing.add_done_callback(self._finishing.discard)

    async def _finish(self, number: int, line: BatchLine, answer: LineAnswer) -> None:
        """Store the answer to a line. Its output is kept first, so every stored result has its output."""
        try:
            output = output_of(answer, custom_id=line.custom_id, request_id=request_id_of(self._batch.id, number))
            piece = await self._until_stored(lambda: self._outputs.append(output))
            result = result_of(answer, line.url, piece, length=len(output))
            self._length.note_entry(answer.entry)
            if await self._lines.finish(self._batch.ref, number, result, answer.entry):
                self._counters.lines["completed" if result.ok else "failed"] += 1
            else:
                self._discard(answer, "late")
        finally:
            self._room.release()

    async def _all_finished(self) -> None:
        """Wait until all answers are stored, so that the progress is known."""
        if self._finishing:
            await asyncio.wait(self._finishing)

    async def _until_stored(self, act: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of *act*, which is repeated while the storage does not answer, so that no answer is lost.

        Raises:
            ContentMissing: if a content does not exist.
            FilesUnavailable: if the storage does not answer after `stop`.
        """
        while True:
            try:
                return await act()
            except ContentMissing:
                raise
            except FilesUnavailable:
                if self._stopped.is_set():
                    raise
                await self._pause(FILES_AGAIN_S)

    async def _answer(self, line: BatchLine, request_id: str, turn: _Turn) -> LineAnswer | Interrupted | None:
        """Return the final answer to a line, or how it was interrupted. Return None if the batch stopped while the line
        had to wait.
        """
        body, failures = bytes(line.body), 0
        place: Place | None = turn.place
        while place is not None:
            try:
                if not await self._may_begin(place, turn):
                    return None
                answer = await self._ask(line.url, body, request_id, place)
                if answer is None:
                    return self._note_interruption(place, turn)
            finally:
                self._lane.leave(place)
            failures += answer.is_fault
            if not answer.is_transient and (not answer.is_fault or failures == ATTEMPTS):
                return answer
            self._discard(answer, "retried")
            await self._pause(min(MAX_WAIT_S, answer.retry_after_s or 2.0**failures))
            turn.follows = False
            place = await self._enter([turn.asked.model])
        return None

    def _note_interruption(self, place: Place, turn: _Turn) -> Interrupted:
        self._counters.interruptions[place.model] += 1
        return self._lane.interrupted(place, turn.step_bytes(place.worker), turn.interruptions + 1)

    @property
    def _is_raised(self) -> bool:
        return self._batch.is_raised(self._wall_clock(), before_s=self._raise_before_s)

    async def _enter(self, asked: Sequence[str]) -> Place | None:
        """Wait for a place in the lane, and return it, or None if the batch stopped."""
        return await self._unless_stopped(lambda: self._lane.enter(asked, is_raised=self._is_raised))

    async def _may_begin(self, place: Place, turn: _Turn) -> bool:
        """Wait until a line may begin at *place*. Return whether it may, which is not so if the batch stopped."""

        async def begin() -> bool:
            await self._lane.begin(
                place,
                step_bytes=turn.step_bytes(place.worker),
                prompt_bytes=turn.planned.prompt_bytes,
                answer_tokens=self._length.expected(turn.asked.most_tokens),
                is_raised=self._is_raised,
                yields=self._caches_prompts and turn.may_interrupt,
            )
            return True

        return await self._unless_stopped(begin) is True

    async def _unless_stopped(self, wait: Callable[[], Awaitable[_T]]) -> _T | None:
        """Return what *wait* returns, or None if the batch stopped."""
        if self._stopped.is_set():
            return None
        slot = asyncio.current_task()
        assert slot is not None, "every slot is a task"
        self._waiting.add(slot)
        try:
            return await wait()
        except asyncio.CancelledError:
            if not self._stopped.is_set() or slot.uncancel() > 0:
                raise
            return None
        finally:
            self._waiting.discard(slot)

    async def _ask(self, url: str, body: bytes, request_id: str, place: Place) -> LineAnswer | None:
        """Return the answer to a line, or None if the line was interrupted."""
        urgency: Urgency = "raised" if self._is_raised else "without_worker" if place.worker is None else "patient"
        try:
            caller = self._identity.caller(self._batch.info.key, self._batch.team, urgency)
        except InvalidKey as refusal:
            return LineAnswer(refusal.status, refusal.to_body(), None)
        secret = self._secret + urgency
        if caller is not self._callers.get(urgency):
            self._callers[urgency] = caller
            self._identity.lend(secret, caller)
        interruption = None if place.prefill is None else Interruption(place.prefill.yields_in_s)
        asked = answered(
            *(self._app, url, body),
            secret=secret,
            request_id=request_id,
            worker=None if self._is_raised else place.worker,
            interruption=interruption,
        )
        return await self._unless_interrupted(asked, place, interruption)

    async def _unless_interrupted(
        self, asked: Coroutine[Any, Any, LineAnswer], place: Place, interruption: Interruption | None
    ) -> LineAnswer | None:
        """Return the answer of *asked*, or None if the line was interrupted before its answer was complete."""
        answering: asyncio.Task[LineAnswer] | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                answering = tasks.create_task(asked)
                if interruption is not None:
                    await self._watch(answering, place, interruption)
        except asyncio.CancelledError:
            if answering is not None and not answering.cancelled():
                self._discard(answering.result(), "stopped")  # the proxy answers a cancelled request as well
            raise
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        is_interrupted = interruption is not None and interruption.is_done
        if is_interrupted and (answering.cancelled() or not answering.result().is_complete):
            return None
        return answering.result()

    async def _watch(self, answering: asyncio.Task[LineAnswer], place: Place, interruption: Interruption) -> None:
        """Interrupt the line at *place* if another request needs the worker while it computes the prompt."""
        while not answering.done() and not interruption.is_done and self._lane.may_interrupt(place):
            await asyncio.wait((answering,), timeout=LOOK_S)
            if self._lane.is_in_the_way(place):
                interruption.interrupt()

    def _discard(self, answer: LineAnswer, reason: str) -> None:
        """Count a run whose answer is not used."""
        entry = answer.entry
        if entry is not None and entry.prompt_tokens + entry.completion_tokens:
            self._counters.discarded[reason] += 1
            self._counters.discarded_nano[reason] += entry.cost_nano

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until `stop`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()


def _worker_of(place: Place) -> str:
    return NO_WORKER if place.worker is None else place.worker
