"""Run what-if jobs one at a time, each in a process of its own at low priority."""

import asyncio
import contextlib
import logging
import sys
from dataclasses import replace
from typing import Literal

import msgspec

from gateway.telemetry.what_if.job import Job, Message, Result

_log = logging.getLogger(__name__)

Status = Literal["idle", "running", "done", "failed", "cancelled"]
CHILD = ("-m", "gateway.telemetry.what_if.child")
MAX_S = 1800.0
"""Seconds after which a job is stopped. On a busy machine it gets little processor time."""
MAX_LINE_BYTES = 4 * 2**20


class BusyError(Exception):
    """Raised if a job is running already."""


class WhatIfRunner:
    """Runs jobs. `run` must run as a task of the gateway."""

    def __init__(self) -> None:
        self.status: Status = "idle"
        self.job: Job | None = None
        """Job that runs or that ran last."""
        self.done = 0.0
        """Share of the running job that is done."""
        self.result: Result | None = None
        """Result of the last job that completed."""
        self.of_shapes: tuple[Job, Result] | None = None
        """Last job that replayed recorded shapes, with its result, or None if none has completed."""
        self.error: str | None = None
        """Reason why the last job failed."""
        self._wanted = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    def start(self, job: Job) -> None:
        """Start *job* in the background.

        Raises:
            BusyError: if a job is running.
        """
        if self.status == "running":
            raise BusyError
        # Its own object, so that the end of a cancelled job is not taken for the end of the same job started again.
        self.job, self.status, self.done, self.error = replace(job), "running", 0.0, None
        self._wanted.set()

    def cancel(self) -> bool:
        """Stop the running job. Return whether there was one."""
        if self.status != "running":
            return False
        self.status = "cancelled"
        self._kill()
        return True

    async def run(self) -> None:
        """Run jobs as they come, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self.job is not None and self.status == "running":
                await self._replay(self.job)

    async def _replay(self, job: Job) -> None:
        try:
            async with asyncio.timeout(MAX_S):
                await self._converse(job)
        except TimeoutError:
            self._fail(job, "The replay took too long. Replay a shorter time.")
        except OSError as fault:
            self._fail(job, f"The replay could not be started: {fault.strerror}.")
        self._fail(job, "The replay ended without a result. Replay a shorter time.")

    async def _converse(self, job: Job) -> None:
        """Start the process, send it *job*, and read its messages."""
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
            if not self._runs(job):  # cancelled while the process started
                return
            with contextlib.suppress(ConnectionError):
                process.stdin.write(msgspec.json.encode(job))
                await process.stdin.drain()
            process.stdin.close()
            async for line in process.stdout:
                self._heard(job, msgspec.json.decode(line, type=Message))
        finally:
            self._kill()
            await process.communicate()

    def _runs(self, job: Job) -> bool:
        return self.status == "running" and self.job is job

    def _heard(self, job: Job, message: Message) -> None:
        if not self._runs(job):
            return
        if message.done is not None:
            self.done = message.done
        elif message.error is not None:
            self._fail(job, message.error)
        elif message.result is not None:
            self.status, self.result, self.done = "done", message.result, 1.0
            if message.result.begins_at is not None:
                self.of_shapes = job, message.result

    def _fail(self, job: Job, error: str) -> None:
        """End *job* with *error*, unless it has ended already."""
        if self._runs(job):
            self.status, self.error = "failed", error
            _log.warning("A what-if replay failed: %s", error)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
