"""Run what-if jobs one at a time, each in a process of its own at low priority."""

import asyncio
import contextlib
import logging
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from gateway.telemetry.what_if.job import Job, Message, Result

_log = logging.getLogger(__name__)

Status = Literal["idle", "running", "done", "failed", "cancelled"]
CHILD = ("-m", "gateway.telemetry.what_if.child")
MAX_S = 1800.0
"""Seconds after which a job is stopped. On a busy machine it gets little processor time."""
MAX_LINE_BYTES = 4 * 2**20
MAX_REPLAYS = 20
"""Maximum number of replays that are kept, with the running one."""
MAX_KEPT_BYTES = 8 * 2**20
"""Maximum size of all kept results. The latest one is always kept."""


class BusyError(Exception):
    """Raised if a job is running already."""


@dataclass(eq=False, slots=True)
class Replay:
    """One started job and its outcome."""

    id: str
    job: Job
    """The job. It contains an uploaded trace only while it runs."""
    started_at: float
    """Unix time."""
    status: Status = "running"
    done: float = 0.0
    """Share of the work that is done, from 0 to 1."""
    result: Result | None = None
    """Result, or None unless the status is done."""
    error: str | None = None
    """Reason why the job failed."""
    result_bytes: int = 0
    """Size of the encoded result."""

    def end(self, status: Status) -> None:
        """Set the final status, and forget an uploaded trace."""
        self.status = status
        if self.job.trace is not None:
            self.job = replace(self.job, trace="")


class WhatIfRunner:
    """Runs jobs, and keeps the outcomes of the latest ones. `run` must run as a task of the gateway."""

    def __init__(
        self, wall_clock: Callable[[], float], *, new_id: Callable[[], str] = lambda: secrets.token_hex(8)
    ) -> None:
        self.latest: Replay | None = None
        """Replay that runs or that ran last."""
        self.of_shapes: tuple[Job, Result] | None = None
        """Last job that replayed recorded shapes, with its result, or None if none has completed."""
        self._wall_clock = wall_clock
        self._new_id = new_id
        self._replays: dict[str, Replay] = {}
        self._wanted = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    def __iter__(self) -> Iterator[Replay]:
        """Yield the kept replays, latest first."""
        return iter(list(reversed(self._replays.values())))

    @property
    def status(self) -> Status:
        """Status of the latest replay, or idle without a replay."""
        return "idle" if self.latest is None else self.latest.status

    def find(self, replay_id: str) -> Replay | None:
        """Return the replay with the id *replay_id*, or None if it is not kept."""
        return self._replays.get(replay_id)

    def start(self, job: Job) -> Replay:
        """Start *job* in the background.

        Raises:
            BusyError: if a job is running.
        """
        if self.status == "running":
            raise BusyError
        replay = self.latest = Replay(self._new_id(), job, self._wall_clock())
        self._replays[replay.id] = replay
        self._forget()
        self._wanted.set()
        return replay

    def cancel(self) -> bool:
        """Stop the running job. Return whether there was one."""
        if self.latest is None or self.latest.status != "running":
            return False
        self.latest.end("cancelled")
        self._kill()
        return True

    async def run(self) -> None:
        """Run jobs as they come, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self.latest is not None and self.latest.status == "running":
                await self._replay(self.latest)

    async def _replay(self, replay: Replay) -> None:
        try:
            async with asyncio.timeout(MAX_S):
                await self._converse(replay)
        except TimeoutError:
            self._fail(replay, "The replay took too long. Replay a shorter time.")
        except OSError as fault:
            self._fail(replay, f"The replay could not be started: {fault.strerror}.")
        except ValueError:  # a line beyond the limit
            self._fail(replay, "The result of the replay is too large. Replay a shorter time.")
        self._fail(replay, "The replay ended without a result. Replay a shorter time.")

    async def _converse(self, replay: Replay) -> None:
        """Start the process, send it the job, and read its messages."""
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={},
            limit=MAX_LINE_BYTES,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if replay.status != "running":  # cancelled while the process started
                return
            with contextlib.suppress(ConnectionError):
                process.stdin.write(msgspec.json.encode(replay.job))
                await process.stdin.drain()
            process.stdin.close()
            async for line in process.stdout:
                self._heard(replay, line)
        finally:
            self._kill()
            await process.communicate()

    def _heard(self, replay: Replay, line: bytes) -> None:
        if replay.status != "running":
            return
        message = msgspec.json.decode(line, type=Message)
        if message.done is not None:
            replay.done = message.done
        elif message.error is not None:
            self._fail(replay, message.error)
        elif message.result is not None:
            replay.result, replay.result_bytes, replay.done = message.result, len(line), 1.0
            replay.end("done")
            self._forget()
            if message.result.begins_at is not None:
                self.of_shapes = replay.job, message.result

    def _fail(self, replay: Replay, error: str) -> None:
        """End *replay* with *error*, unless it has ended already."""
        if replay.status == "running":
            replay.error = error
            replay.end("failed")
            _log.warning("A what-if replay failed: %s", error)

    def _forget(self) -> None:
        """Forget the oldest replays beyond the limits."""
        while len(self._replays) > 1 and (
            len(self._replays) > MAX_REPLAYS
            or sum(each.result_bytes for each in self._replays.values()) > MAX_KEPT_BYTES
        ):
            del self._replays[next(iter(self._replays))]

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
