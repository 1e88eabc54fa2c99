"""Decision whether a stream that pauses has stalled, by the other streams of its worker and the engine's counter."""

import math
from typing import Final

from gateway.backends.upstream.engine_progress import EngineProgress

OTHERS_ARRIVALS: Final = 10.0
"""Pieces that each other stream of a worker gets, on average, while one that pauses has lost its turn for good. By
default a pause is 20 usual gaps, so streams that go on at half their pace have as many."""
LONGEST_PAUSE: Final = 10.0
"""Pauses that a stream may make while all streams of its worker are silent, or while it is the only one and the engine
is seen to generate: an engine that is held up for seconds is not dead, and what it generates may be held back."""
READINGS: Final = 5.0
"""Readings of the engine that are asked for during one pause of a stream that is alone on its worker. Two decide, so
some may be late. By default a fifth of a pause is four usual gaps, in which an engine that works generates tokens."""


class StallDetector:
    """Made once for each connection. Times are monotonic seconds."""

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
        """Pieces of the response since `take_arrivals`."""
        self.paused_at = 0.0
        self._generated_at = -math.inf
        self.expect(math.inf)

    def expect(self, idle_s: float) -> None:
        """Begin a response in which a pause may be *idle_s* long."""
        self.idle_s = self._longest_idle_s = idle_s
        self.arrivals = 0
        self._others_arrivals = 0.0
        self._has_company = False

    def is_stricter(self) -> bool:
        """Return whether a shorter pause is asked for than at the begin: a gap alone does not decide about that."""
        return self.idle_s < self._longest_idle_s

    def take_arrivals(self) -> int:
        arrivals, self.arrivals = self.arrivals, 0
        return arrivals

    def compare(self, arrivals: int, others: int, others_arrivals: int, *, waits: bool) -> None:
        """Note what the worker's *others* streams got while this one, which *waits* or does not, got *arrivals*."""
        self._has_company = others > 0
        if arrivals or not waits:
            self._others_arrivals = 0.0
        elif others:
            self._others_arrivals += others_arrivals / others

    def inquire(self, engine: EngineProgress, now: float) -> None:
        """Read *engine* if the stream is alone on its worker, and note whether it generates."""
        if not self._has_company and now >= self.paused_at + self.idle_s / READINGS:
            engine.ask(now, every_s=self.idle_s / READINGS)
            self._generated_at = engine.generated_at(self.paused_at)

    def has_stalled(self, now: float) -> bool:
        """Return whether a pause that has lasted too long is a stall. Five cases:

        1. It has lasted as long as the worker's own limit, or `LONGEST_PAUSE` times what is asked: yes.
        2. The worker's other streams go on: yes. What the engine generates is theirs, so its counter says nothing.
        3. The other streams pause as well: no. The machine is busy or the engine is held up, and that shows in time.
        4. The stream is alone, and the engine was seen to generate less than one such pause ago: no.
        5. It is alone, and the engine was not seen to generate, or could not be read in time: yes.
        """
        if not self.is_stricter() or now >= self.paused_at + LONGEST_PAUSE * self.idle_s:
            return True
        if self._has_company:
            return self._others_arrivals >= OTHERS_ARRIVALS
        return now >= self._generated_at + self.idle_s
