"""Schedule for the replays of one engine: which replay is running, and when the next replay is due."""

from dataclasses import dataclass
from typing import Literal

FRUITLESS_REPLAYS = 2
"""Number of consecutive replays without new batches after which the missing batches count as lost."""
BROKEN_REPLAYS = 3
"""Number of consecutive failed replays after which the stream continues without replays."""

Due = Literal["timeout", "retry", "rebuild", "check"]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Request to an engine for a replay of batches."""

    number: int
    """Number of the replay request. Replies to earlier requests are ignored."""
    start: int
    """Sequence number of the first requested batch."""


@dataclass(frozen=True, slots=True)
class ReplayTimeouts:
    """Timeouts and delays for replays, in seconds."""

    answer_s: float = 2.0
    """Maximum seconds to wait for the next reply. Old engines drop replies if the reader is slow."""
    retry_s: float = 1.0
    """Seconds before a failed replay is repeated. The second failure doubles this delay."""
    settle_s: float = 1.0
    """Seconds from a new connection to the first check for missing batches. A subscription takes effect with a delay.
    Only this check detects a batch that was published before then and that no other batch follows.
    """
    check_s: float = 30.0
    """Seconds without messages after which a replay checks for missing batches. An idle engine publishes nothing."""
    rebuild_s: float = 60.0
    """Seconds before replays are tried again after they failed. The delay doubles with every failure, up to ten times
    its value.
    """


@dataclass(slots=True)
class RunningReplay:
    """State of a replay that is in progress."""

    request: ReplayRequest
    is_check: bool
    """Whether the replay is only a check, because no batch is known to be missing."""
    rebuilds: bool
    """Whether the first batch of the replay resets the index of the engine's cache."""
    last_before: int | None
    """Sequence number of the batch that was processed last when the replay started, or None if there was no batch."""
    heard_at: float
    has_begun: bool = False
    answers: int = 0


class ReplaySchedule:
    """Schedule that decides when to start a replay. In contrast, `Sequencer` interprets the replies."""

    def __init__(self, timeouts: ReplayTimeouts) -> None:
        self._timeouts = timeouts
        self.running: RunningReplay | None = None
        self.started = 0
        """Number of replays that were started since the stream began."""
        self.wants_rebuild = False
        """Whether the next replay reads the whole replay buffer and resets the index of the engine."""
        self._fruitless = 0
        self._broken = 0
        self._retry_at: float | None = None
        self._check_at = 0.0
        self._rebuild_at: float | None = None
        self._rebuild_after_s = timeouts.rebuild_s

    @property
    def is_retrying(self) -> bool:
        """Whether a failed replay will be repeated."""
        return self._retry_at is not None

    @property
    def is_catching_up(self) -> bool:
        """Whether a replay of missing batches is running or will be repeated."""
        return self.is_retrying or (self.running is not None and not self.running.is_check)

    def start(self, last: int | None, now: float, *, is_check: bool = False) -> None:
        """Start a replay after *last*, the batch that was processed last. It replaces any running replay."""
        self.started += 1
        self._retry_at = None
        first = 0 if last is None or self.wants_rebuild else max(last, 0)
        request = ReplayRequest(self.started, first)
        self.running = RunningReplay(request, is_check, self.wants_rebuild, last, now)

    def running_as(self, number: int) -> RunningReplay | None:
        """Return the running replay if its request has the number *number*, otherwise None."""
        running = self.running
        return running if running is not None and running.request.number == number else None

    def abandon(self) -> None:
        """Stop the running replay. Cancel planned repetitions and reset the counters of failures."""
        self.running = self._retry_at = None
        self._fruitless = self._broken = 0

    def due(self, now: float) -> Due | None:
        """Return the action that is due at the time *now*, if any, and mark the action as done."""
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
        """Schedule a check for missing batches for a time when the new subscription has taken effect."""
        self._fruitless = self._broken = 0
        self._check_at = now + self._timeouts.settle_s

    def heard(self, now: float) -> None:
        """Postpone the next check for missing batches, because the engine has published a message."""
        self._check_at = now + self._timeouts.check_s

    def check_soon(self, now: float) -> None:
        """Schedule a check for missing batches as soon as no other replay is running."""
        self._check_at = now

    def ended(self) -> None:
        """Record that the running replay has ended normally."""
        self.running = None
        self._broken = 0

    def retries(self, now: float, *, had_progress: bool) -> bool:
        """Schedule a repetition of a failed replay. Return False after too many failures without progress."""
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
        """Record that no batches are missing after the replay."""
        self._fruitless = 0

    def is_fruitless(self, *, had_progress: bool) -> bool:
        """Record a replay after which batches are still missing. Return True after too many without progress."""
        self._fruitless = 0 if had_progress else self._fruitless + 1
        if self._fruitless < FRUITLESS_REPLAYS:
            return False
        self._fruitless = 0
        return True

    def back_off(self, now: float) -> None:
        """Schedule a rebuild of the index. The delay grows with each call."""
        self.wants_rebuild = False
        self._rebuild_at = now + self._rebuild_after_s
        self._rebuild_after_s = min(2 * self._rebuild_after_s, 10 * self._timeouts.rebuild_s)

    def cancel_rebuild(self) -> None:
        """Cancel the scheduled rebuild of the index."""
        self._rebuild_at = None

    def rebuilt(self) -> None:
        """Record that a replay succeeded. Cancel the scheduled rebuild of the index and reset its delay."""
        self._rebuild_at = None
        self._rebuild_after_s = self._timeouts.rebuild_s
