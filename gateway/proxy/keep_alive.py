"""Send comments on silent streams, so that proxies between the gateway and the caller do not close the streams.

`KeepAlive` decides when a comment is due. `Downstream` decides whether it fits into the response.
"""

import asyncio
import logging

from gateway.proxy.downstream import Downstream

_log = logging.getLogger(__name__)

SWEEPS = 15
"""Number of sweeps in the time for which a stream is allowed to be silent. A comment is late by at most one sweep."""


class KeepAlive:
    """Sender of comments on each open stream that was silent for *silence_s* seconds. If *silence_s* is None, it sends
    no comments.
    """

    def __init__(self, *, silence_s: float | None) -> None:
        self._silence_s = silence_s
        self._quiet: dict[Downstream, int] = {}
        """Number of consecutive sweeps without any written data, by stream."""
        self._comments: dict[Downstream, asyncio.Task[None]] = {}

    def begin(self, downstream: Downstream) -> None:
        """Register the stream *downstream* before any part of the stream is sent."""
        self._quiet[downstream] = 0

    def end(self, downstream: Downstream) -> None:
        """Unregister the stream *downstream*, and cancel any comment that waits to be sent. If the stream is not
        registered, do nothing.
        """
        self._quiet.pop(downstream, None)
        comment = self._comments.pop(downstream, None)
        if comment is not None:
            comment.cancel()

    async def run(self) -> None:
        """Check all streams at regular intervals until canceled."""
        if self._silence_s is None:
            return
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(self._silence_s / SWEEPS)
                for downstream in self.overdue():
                    # A task, because a caller that does not read blocks it; one at a time for each stream.
                    if downstream not in self._comments:
                        self._comments[downstream] = tasks.create_task(self._comment(downstream))

    def overdue(self) -> list[Downstream]:
        """Check all streams once, and return the streams on which a comment is due."""
        overdue = []
        for downstream, sweeps in self._quiet.items():
            quiet = sweeps + 1 if downstream.is_quiet else 0
            downstream.is_quiet = True
            if quiet >= SWEEPS:
                overdue.append(downstream)
                quiet = 0
            self._quiet[downstream] = quiet
        return overdue

    async def _comment(self, downstream: Downstream) -> None:
        try:
            await downstream.keep_alive()
        except Exception as error:  # noqa: BLE001  # a fault of one connection must not end the comments of all others
            _log.warning("a connection to a caller failed: %s", type(error).__name__)
        self._comments.pop(downstream, None)
