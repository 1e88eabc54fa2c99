"""Detection of stalled streams by comparison with the worker's other streams and the engine's token counter."""

import math
from typing import Final

from gateway.backends.upstream.engine_progress import EngineProgress

OTHERS_ARRIVALS: Final = 10.0
"""Average number of arrivals in each of the worker's other streams after which a silent stream counts as stalled. By
default, a pause lasts as long as 20 usual gaps, so streams at half their usual rate reach this number.
"""
LONGEST_PAUSE: Final = 10.0
"""Multiple of the allowed pause after which a stream counts as stalled even if all streams are silent or the engine
generates tokens. An engine with a delay of seconds is not dead, and something might hold its output back.
"""
READINGS: Final = 5.0
"""Number of metrics readings that are requested during one pause of a worker's only stream. Two readings suffice, so
some can be late. By default, a fifth of a pause is four usual gaps, in which a working engine generates tokens.
"""


class StallDetector:
    """Detector of stalls on one connection. All times are monotonic seconds."""

    __slots__ = (
        "_generated_at",
        "_has_company",
        "_longest_idle_s",
        "_others_arrivals",
        "arrivals",
        "idle_s",
        "paused_at",
    )

    def __init__(self) -> None:
        self.arrivals = 0
        """Number of times that data of the response arrived since the last `take_arrivals`."""
        self.paused_at = 0.0
        self._generated_at = -math.inf
        self.expect(math.inf)

    def expect(self, idle_s: float) -> None:
        """Begin a response in which pauses of up to *idle_s* seconds are allowed."""
        self.idle_s = self._longest_idle_s = idle_s
        self.arrivals = 0
        self._others_arrivals = 0.0
        self._has_company = False

    def is_stricter(self) -> bool:
        """Return whether the allowed pause was shortened during the response. If so, a pause alone does not prove a
        stall.
        """
        return self.idle_s < self._longest_idle_s

    def take_arrivals(self) -> int:
        arrivals, self.arrivals = self.arrivals, 0
        return arrivals

    def compare(self, arrivals: int, others: int, others_arrivals: int, *, waits: bool) -> None:
        """Record data arrivals in this stream and in the worker's *others* streams. *waits* is False if nothing is
        being read.
        """
        self._has_company = others > 0
        if arrivals or not waits:
            self._others_arrivals = 0.0
        elif others:
            self._others_arrivals += others_arrivals / others

    def inquire(self, engine: EngineProgress, now: float) -> None:
        """Request a reading of *engine* if this is the worker's only stream, and record whether the engine generates
        tokens.
        """
        if not self._has_company and now >= self.paused_at + self.idle_s / READINGS:
            engine.ask(now, every_s=self.idle_s / READINGS)
            self._generated_at = engine.generated_at(self.paused_at)

    def has_stalled(self, now: float) -> bool:
        """Return whether the current pause, which exceeds the allowed length, is a stall.

        1. It exceeds the worker's own limit, or `LONGEST_PAUSE` times the allowed pause: stalled.
        2. The worker's other streams continue: stalled. The engine's counter does not help, because it includes their
           tokens.
        3. The other streams pause as well: not stalled. The machine is busy or the engine is delayed.
        4. The stream is the only one, and the engine generated tokens less than one allowed pause ago: not stalled.
        5. The stream is the only one, and the engine generated nothing or could not be read in time: stalled.
        """
        if not self.is_stricter() or now >= self.paused_at + LONGEST_PAUSE * self.idle_s:
            return True
        if self._has_company:
            return self._others_arrivals >= OTHERS_ARRIVALS
        return now >= self._generated_at + self.idle_s
