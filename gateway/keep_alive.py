"""Comments for streams in which nothing comes for a long time, so that no proxy on the way gives them up.

When one is due is decided here; whether it has a place in the response is for `Downstream` to know.
"""

import asyncio
import logging

from gateway.downstream import Downstream

_log = logging.getLogger(__name__)

SWEEPS = 15
"""Looks per time of silence: a comment is at most this part of it late."""


class KeepAlive:
    """Sends a comment on every open stream that was silent for *silence_s* seconds; none at all if that is None."""

    def __init__(self, *, silence_s: float | None) -> None:
        self._silence_s = silence_s
        self._quiet: dict[Downstream, int] = {}
        """How many sweeps in a row found nothing written."""
        self._comments: dict[Downstream, asyncio.Task[None]] = {}

    def begin(self, downstream: Downstream) -> None:
        """*downstream* will be a stream; to be called before anything of it is sent."""
        self._quiet[downstream] = 0

    def end(self, downstream: Downstream) -> None:
        """The request is over; may be called for one that never began. A comment that still waits is taken back."""
        self._quiet.pop(downstream, None)
        comment = self._comments.pop(downstream, None)
        if comment is not None:
            comment.cancel()

    async def run(self) -> None:
        """Sweep until cancelled."""
        if self._silence_s is None:
            return
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(self._silence_s / SWEEPS)
                for downstream in self.late():
                    # A task, because a caller who does not read makes it wait; only one at a time for each.
                    if downstream not in self._comments:
                        self._comments[downstream] = tasks.create_task(self._comment(downstream))

    def late(self) -> list[Downstream]:
        """Look once at all streams: those that are due for a comment."""
        late = []
        for downstream, sweeps in self._quiet.items():
            quiet = sweeps + 1 if downstream.is_quiet else 0
            downstream.is_quiet = True
            if quiet >= SWEEPS:
                late.append(downstream)
                quiet = 0
            self._quiet[downstream] = quiet
        return late

    async def _comment(self, downstream: Downstream) -> None:
        try:
            await downstream.keep_alive()
        except Exception as error:  # noqa: BLE001  # a connection in disorder must not end the comments of all others
            _log.warning("a connection to a caller failed: %s", type(error).__name__)
        self._comments.pop(downstream, None)
