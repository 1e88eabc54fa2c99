"""The replay of an engine's ring that should be running, and the time at which the next one is due."""

from dataclasses import dataclass
from typing import Literal

FRUITLESS_REPLAYS = 2
"""Replays in a row that bring nothing, after which the missing batches are lost."""
BROKEN_REPLAYS = 3
"""Replays in a row that break off without an answer, after which the stream goes on without them."""

Due = Literal["timeout", "retry", "rebuild", "check"]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A replay that is wanted."""

    number: int
    """Answers must carry it; answers to earlier requests are ignored."""
    start: int
    """First sequence that is wanted."""


@dataclass(frozen=True, slots=True)
class ReplayTimeouts:
    """Waiting times around replays, in seconds."""

    answer_s: float = 2.0
    """Longest wait for the next piece. Old engines drop what a slow reader does not take, with the end marker."""
    retry_s: float = 1.0
    """Delay after a replay that brought nothing, not even its end; twice that after the second."""
    settle_s: float = 1.0
    """Time from a connection to the first check. A subscription takes a moment to be in force: nothing else would
    reveal a batch that was published in that moment, as the last before a silence."""
    check_s: float = 30.0
    """Silence after which a replay checks that nothing was missed. An idle engine publishes nothing."""
    rebuild_s: float = 60.0
    """Time until broken replays are tried again; doubled each time, up to ten times that."""


@dataclass(slots=True)
class RunningReplay:
    """The replay whose answers are read now."""

    request: ReplayRequest
    is_check: bool
    """Whether this is a check, with no known missing batches."""
    rebuilds: bool
    """The first answer resets the picture of the engine."""
    last_before: int | None
    """Last batch that was taken in when it began."""
    heard_at: float
    has_begun: bool = False
    answers: int = 0


class ReplaySchedule:
    """Decides when a replay begins; `Sequencer` decides what its answers mean."""

    def __init__(self, timeouts: ReplayTimeouts) -> None:
        self._timeouts = timeouts
        self.running: RunningReplay | None = None
        self.started = 0
        """Replays since the stream began."""
        self.wants_rebuild = False
        """The next replay reads the whole ring and resets the picture of the engine."""
        self._fruitless = 0
        self._broken = 0
        self._retry_at: float | None = None
        self._check_at = 0.0
        self._rebuild_at: float | None = None
        self._rebuild_after_s = timeouts.rebuild_s

    @property
    def is_retrying(self) -> bool:
        """Whether to repeat a broken replay."""
        return self._retry_at is not None

    @property
    def is_catching_up(self) -> bool:
        """Whether a replay of missing batches is running or about to be repeated."""
        return self.is_retrying or (self.running is not None and not self.running.is_check)

    def start(self, last: int | None, now: float, *, is_check: bool = False) -> None:
        """Begin a replay from batch *last*, which was taken in last; it replaces the one that is running."""
        self.started += 1
        self._retry_at = None
        first = 0 if last is None or self.wants_rebuild else max(last, 0)
        request = ReplayRequest(self.started, first)
        self.running = RunningReplay(request, is_check, self.wants_rebuild, last, now)

    def running_as(self, number: int) -> RunningReplay | None:
        """Return the running replay if it has that *number*."""
        running = self.running
        return running if running is not None and running.request.number == number else None

    def abandon(self) -> None:
        """End the running replay, and forget the next try and the failures before it."""
        self.running = self._retry_at = None
        self._fruitless = self._broken = 0

    def due(self, now: float) -> Due | None:
        """Return what the passing of time requires, and note that it is done."""
        if self.running is not None:
            return "timeout" if now - self.running.heard_at > self._timeouts.answer_s else None
        if self._retry_at is not None:
            return "retry" if now >= self._retry_at else None
        if self._rebuild_at is not None and now >= self._rebuild_at:
            self._rebuild_at = None
            return "rebuild"
        if now >= self._check_at:
            self._check_at = now + self._timeouts.check_s
            return "check"
        return None

    def connected(self, now: float) -> None:
        """Check soon: by then the subscription is certainly in force."""
        self._fruitless = self._broken = 0
        self._check_at = now + self._timeouts.settle_s

    def heard(self, now: float) -> None:
        """Postpone the next check: the engine has published a message."""
        self._check_at = now + self._timeouts.check_s

    def check_soon(self, now: float) -> None:
        """Check as soon as nothing else is running."""
        self._check_at = now

    def ended(self) -> None:
        """Note that the running replay came to its end."""
        self.running = None
        self._broken = 0

    def retries(self, now: float, *, had_progress: bool) -> bool:
        """Plan the next try after a replay that broke off; False if too many of them did without any progress."""
        if had_progress:
            self._broken = 0
            return True
        self._broken += 1
        if self._broken < BROKEN_REPLAYS:
            self._retry_at = now + self._broken * self._timeouts.retry_s
            return True
        self._broken = 0
        return False

    def caught_up(self) -> None:
        """Note that nothing is missing after a replay."""
        self._fruitless = 0

    def is_fruitless(self, *, had_progress: bool) -> bool:
        """Count a replay after which batches are missing; return whether too many in a row brought nothing."""
        self._fruitless = 0 if had_progress else self._fruitless + 1
        if self._fruitless < FRUITLESS_REPLAYS:
            return False
        self._fruitless = 0
        return True

    def back_off(self, now: float) -> None:
        """Plan a rebuild, later each time."""
        self.wants_rebuild = False
        self._rebuild_at = now + self._rebuild_after_s
        self._rebuild_after_s = min(2 * self._rebuild_after_s, 10 * self._timeouts.rebuild_s)

    def cancel_rebuild(self) -> None:
        """Forget the planned rebuild."""
        self._rebuild_at = None

    def rebuilt(self) -> None:
        """Note that a replay has shown the engine's ring: replays work."""
        self._rebuild_at = None
        self._rebuild_after_s = self._timeouts.rebuild_s
