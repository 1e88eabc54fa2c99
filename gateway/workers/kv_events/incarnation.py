"""Incarnation of an engine, which is the time between two of its restarts. When it changes, the log is reset."""

from gateway.workers.kv_events.batch_log import BEFORE_ALL, BatchLog, Knowledge
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.replay_schedule import ReplaySchedule


class Incarnation:
    """Filter that restricts *log* to the batches of one incarnation of the engine. Messages reveal restarts."""

    def __init__(self, log: BatchLog, schedule: ReplaySchedule, *, replays: bool) -> None:
        self._log = log
        self._schedule = schedule
        self._replays = replays
        self.is_verified = False
        """Whether the current connection is known to lead to the known incarnation of the engine."""
        self.is_open = False
        """Whether the next message is accepted as the first one, whatever its sequence number is."""
        self.restarts = 0
        self.rebuilds = 0

    def reset(self, last: int, knowledge: Knowledge, *, is_new: bool = False) -> None:
        """Discard all state and continue after the batch *last*. *is_new* means that the engine has restarted."""
        self._log.reset(last, knowledge, is_new_incarnation=is_new)
        self.is_verified = True
        self.is_open = self._schedule.wants_rebuild = False
        if knowledge != "unreplayed":
            self._schedule.rebuilt()

    def open_at(self, message: BatchMessage, *, is_new: bool = False) -> None:
        """Discard all state and start with *message*, because earlier messages are not available."""
        # After an interruption it may be the last that is still heard of an earlier incarnation.
        is_first_of_all = message.seq == 0 and (is_new or not self._log.was_interrupted)
        self.reset(message.seq - 1, "complete" if is_first_of_all else "unreplayed", is_new=is_new)

    def restart(self, message: BatchMessage | None, now: float) -> None:
        """Discard all state after an engine restart. *message* is the first known message after the restart, if any."""
        self.restarts += 1
        log = self._log
        log.held.clear()
        self._schedule.abandon()
        if message is not None and (message.seq == 0 or not self._replays):
            self.open_at(message, is_new=True)
            log.append(message)
            return
        self.reset(BEFORE_ALL, "unreplayed", is_new=True)
        log.last = None
        self.is_verified = False
        if message is not None:
            log.held.add(message)
        self._schedule.start(None, now)

    def restart_if_contradicted(self, message: BatchMessage, now: float) -> bool:
        """Handle *message*, whose sequence number is too low. Return whether it proved a restart and reset the log."""
        is_later = self._log.is_of_later_incarnation(message)
        if is_later:
            self.restart(message, now)
        return is_later

    def restart_if_held_contradict(self, now: float) -> bool:
        """Drop held messages whose sequence numbers are too low. Return whether one of them proved a restart, which
        resets the log.
        """
        last = self._log.last
        assert last is not None
        return any(self.restart_if_contradicted(message, now) for message in self._log.held.take_through(last))

    def give_up_missing(self) -> None:
        """Skip missing batches and record them as lost. Continue with the first held message."""
        log = self._log
        log.drop_late()
        if log.held and log.last is not None:
            first = log.held.first
            if log.last == BEFORE_ALL:
                self.reset(first - 1, "partial")
            else:
                log.lose(first - log.last - 1)
                log.last = first - 1
            log.append_held()
