"""Run the lines of one batch in this gateway, as long as the batch is in progress."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import IO, Any, Final, Protocol

import msgspec

from gateway.batch.batch import TeamBatch
from gateway.batch.counters import BatchCounters
from gateway.batch.lane import Lane
from gateway.batch.line_call import App, LineAnswer, answered, output_of, result_of
from gateway.batch.line_store import LineStore
from gateway.batch.plan import BatchLine, planned_line, read_line
from gateway.batch.results import BatchFolder, PartWriter, request_id_of
from gateway.protocol.errors import InvalidKey, StoreUnavailable
from gateway.tenancy.teams.caller import Caller

MAX_SLOTS: Final = 64
"""Maximum number of lines of one batch that run at the same time in one gateway."""
CLAIMED: Final = 8
"""Maximum number of lines to claim at once. They are neighbors, so their prompts often begin alike."""
ATTEMPTS: Final = 3
"""Number of attempts at a line if workers fail."""
MAX_WAIT_S: Final = 60.0
"""Maximum seconds until a line that had to wait is tried again."""
IDLE_S: Final = 1.0
"""Seconds until the next look for lines whose gateway was killed, if no other lines are left."""


class Identity(Protocol):
    """Callers of batches."""

    def caller(self, key: str, team: str) -> Caller:
        """Return the caller for lines of batches of the key *key*.

        Raises:
            InvalidKey: if the key does not exist any more, or is no longer valid.
        """
        ...

    def lend(self, secret: str, caller: Caller) -> None: ...

    def take_back(self, secret: str) -> None: ...


class _Model(msgspec.Struct):
    model: str = ""


_model_in = msgspec.json.Decoder(_Model).decode


class LineRunner:
    """Runs lines of *batch* until `stop` is called or no line is left."""

    def __init__(
        self,
        batch: TeamBatch,
        folder: BatchFolder,
        *,
        app: App,
        lines: LineStore,
        lane: Lane,
        counters: BatchCounters,
        identity: Identity,
        lease_s: float,
        wall_clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._batch = batch
        self._folder = folder
        self._app = app
        self._lines = lines
        self._lane = lane
        self._counters = counters
        self._identity = identity
        self._lease_s = lease_s
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._owner = secrets.token_hex(8)
        self._secret = f"batch-{secrets.token_hex(32)}"
        self._caller: Caller | None = None
        self._part = PartWriter(folder.part(self._owner))
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
            StoreUnavailable, FilesUnavailable: if a claim or a result could not be written. The lines run again later.
            OSError: if the files of the batch cannot be read.
        """
        count = max(1, min(MAX_SLOTS, self._lane.slots, self._batch.info.total))
        with self._folder.plan.open("rb") as plan_file, self._folder.input.open("rb") as input_file:
            try:
                await self._run_slots(count, plan_file, input_file)
            finally:
                self._identity.take_back(self._secret)
                self._part.close()

    async def _run_slots(self, count: int, plan_file: IO[bytes], input_file: IO[bytes]) -> None:
        """Run *count* slots. The first error of a slot ends all of them."""
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew())
                slots = [tasks.create_task(self._slot(count, plan_file, input_file)) for _ in range(count)]
                await asyncio.gather(*slots)
                renewing.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _renew(self) -> None:
        while True:
            await self._sleep(self._lease_s / 3)
            with suppress(StoreUnavailable):  # the lease then ends, and the lines run again elsewhere
                await self._lines.renew(self._batch.id, self._owner, until=self._wall_clock() + self._lease_s)

    async def _slot(self, slots: int, plan_file: IO[bytes], input_file: IO[bytes]) -> None:
        """Claim and run lines one after the other."""
        total = self._batch.info.total
        count = max(1, min(CLAIMED, total // (4 * slots)))
        while not self._stopped.is_set():
            now = self._wall_clock()
            places = await self._lines.claim(self._batch.id, self._owner, count, now=now, until=now + self._lease_s)
            if not places:
                progress = await self._lines.progress(self._batch.id)
                if progress is None or progress.is_done:
                    return
                await self._pause(IDLE_S)
            for place in places:
                if self._stopped.is_set():
                    return
                line = await asyncio.to_thread(lambda at: read_line(input_file, planned_line(plan_file, at)), place)
                await self._run_line(place, line)

    async def _run_line(self, place: int, line: BatchLine) -> None:
        request_id = request_id_of(self._batch.id, place)
        answer = await self._answer(line, request_id)
        if answer is None:
            return
        output = output_of(answer, custom_id=line.custom_id, request_id=request_id)
        start = await self._part.append(output)
        result = result_of(answer, line.url, part=self._part.name, start=start, length=len(output))
        if await self._lines.finish(self._batch.id, place, result):
            self._counters.lines["completed" if result.ok else "failed"] += 1

    async def _answer(self, line: BatchLine, request_id: str) -> LineAnswer | None:
        """Return the final answer to a line, or None if the batch stopped while the line had to wait."""
        body, failures = bytes(line.body), 0
        asked = _model_in(body).model
        while (lane_place := await self._enter(asked)) is not None:
            try:
                answer = await self._ask(line.url, body, request_id)
            finally:
                self._lane.leave(lane_place)
            failures += answer.is_fault
            if not answer.is_transient and (not answer.is_fault or failures == ATTEMPTS):
                return answer
            await self._pause(min(MAX_WAIT_S, answer.retry_after_s or 2.0**failures))
        return None

    async def _enter(self, asked: str) -> str | None:
        """Wait for a place in the lane, and return it, or None if the batch stopped."""
        if self._stopped.is_set():
            return None
        slot = asyncio.current_task()
        assert slot is not None, "every slot is a task"
        self._waiting.add(slot)
        try:
            return await self._lane.enter(asked)
        except asyncio.CancelledError:
            if not self._stopped.is_set() or slot.uncancel() > 0:
                raise
            return None
        finally:
            self._waiting.discard(slot)

    async def _ask(self, url: str, body: bytes, request_id: str) -> LineAnswer:
        info = self._batch.info
        try:
            caller = self._identity.caller(info.key, self._batch.team)
        except InvalidKey as refusal:
            return LineAnswer(refusal.status, refusal.to_body(), None)
        if caller is not self._caller:
            self._caller = caller
            self._identity.lend(self._secret, caller)
        answer = await answered(self._app, url, body, secret=self._secret, request_id=request_id)
        slot = asyncio.current_task()
        if slot is not None and slot.cancelling():
            raise asyncio.CancelledError  # the proxy answers a cancelled request, because callers expect an answer
        return answer

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until `stop`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
