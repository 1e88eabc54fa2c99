"""The header ``date`` as a line of a response, put together once a second."""

import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Final

_MONOTONIC_BEGINS: Final = -1.0
"""Before every time of a loop."""


class DateLine:
    """Shared by all connections of a server. *wall_clock* gives seconds since 1970."""

    __slots__ = ("_line", "_until", "_wall_clock")

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:  # noqa: TID251  # the composition root's own
        self._wall_clock = wall_clock
        self._line = b""
        self._until = _MONOTONIC_BEGINS

    def line(self, now: float) -> bytes:
        """The line at *now*, seconds of a clock that never goes back."""
        if now >= self._until:
            wall = self._wall_clock()
            self._until = now + 1.0 - wall % 1.0
            self._line = b"date: " + formatdate(wall, usegmt=True).encode("ascii") + b"\r\n"
        return self._line
