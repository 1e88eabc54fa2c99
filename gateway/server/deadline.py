"""Deadline for a client to send or read data."""

import asyncio
from typing import Final

from gateway.server.shared_state import ConnectionLimits

BODY_GRACE_S: Final = 20.0  # before the rate counts, as in Apache's mod_reqtimeout: body=20,MinRate=500


class ClientDeadline:
    """Deadline for one client connection. The attribute `due` is in seconds of the event loop's clock, or None while
    the client waits for the gateway.

    One timer for each connection compares `due` with the clock, so that no request has to start or stop a timer.
    """

    __slots__ = ("_body_from", "_limits", "_loop", "_paused_at", "due")

    def __init__(self, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._limits = limits
        self._loop = loop
        self._body_from = -1.0  # when the body was first waited for, plus the time in which reading was paused
        self._paused_at = 0.0
        self.due: float | None = None

    def expect_request(self) -> None:
        """Give the client `keep_alive_s` seconds to begin a request, to complete a request head, or to read the last
        bytes.
        """
        self.due = self._loop.time() + self._limits.keep_alive_s

    def expect_read(self) -> None:
        """Give the client `write_timeout_s` seconds to read the next part of an answer."""
        self.due = self._loop.time() + self._limits.write_timeout_s

    def expect_body(self, received_bytes: int) -> None:
        """Set the deadline for the next part of a request body after *received_bytes* bytes have arrived."""
        now = self._loop.time()
        due = now + self._limits.body_idle_s
        rate = self._limits.min_body_bytes_per_s
        if rate != 0.0:
            if self._body_from < 0.0:
                self._body_from = now
            due = min(due, self._body_from + BODY_GRACE_S + received_bytes / rate)
        self.due = due

    def start_body(self) -> None:
        """Restart the time that counts toward the minimum rate of a request body."""
        self._body_from = -1.0

    def pause(self) -> None:
        """Stop the deadline while the gateway does not read from the client."""
        self._paused_at = self._loop.time()
        self.due = None

    def resume(self) -> None:
        """Exclude the time since the call of `pause` from the time that counts toward the minimum body rate."""
        if self._body_from >= 0.0:
            self._body_from += self._loop.time() - self._paused_at

    def next_check(self, now: float) -> float:
        """Return the next time for comparing `due` with the clock, early enough for any deadline that starts until
        then.
        """
        limits = self._limits
        latest = now + min(limits.keep_alive_s, limits.body_idle_s, limits.write_timeout_s, BODY_GRACE_S)
        return latest if self.due is None else min(self.due, latest)
