"""The incarnation of an engine that a stream follows: when it is known, and when everything starts over."""

from gateway.workers.kv_events.batch_log import BEFORE_ALL, BatchLog, Knowledge
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.replay_schedule import ReplaySchedule


class Incarnation:
    """Keeps *log* to the batches of one incarnation of the engine, by what messages and replays show."""

    def __init__(self, log: BatchLog, schedule: ReplaySchedule, *, replays: bool) -> None:
        self._log = log
        self._schedule = schedule
        self._replays = replays
        self.is_verified = False
        """Whether this connection leads to the known incarnation."""
        self.is_open = False
        """The next message is the first, whatever its sequence."""
        self.restarts = 0
        self.rebuilds = 0

    def reset(self, last: int, knowledge: Knowledge, *, is_new: bool = False) -> None:
        """Start over right behind batch *last*; *is_new*: the engine has restarted."""
        self._log.reset(last, knowledge, is_new_incarnation=is_new)
        self.is_verified = True
        self.is_open = self._schedule.wants_rebuild = False
        if knowledge != "unreplayed":
            self._schedule.rebuilt()

    def open_at(self, message: BatchMessage, *, is_new: bool = False) -> None:
        """Start over with *message*: nothing before it can be had."""
        # After an interruption it may be the last that is still heard of an earlier incarnation.
        is_first_of_all = message.seq == 0 and (is_new or not self._log.was_interrupted)
        self.reset(message.seq - 1, "complete" if is_first_of_all else "unreplayed", is_new=is_new)

    def restart(self, message: BatchMessage | None, now: float) -> None:
        """Start over: the engine has restarted. *message* is of the new incarnation."""
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
        """Start over if *message*, whose sequence was passed, is of a later incarnation; return whether it is."""
        is_later = self._log.is_of_later_incarnation(message)
        if is_later:
            self.restart(message, now)
        return is_later

    def restart_if_held_contradict(self, now: float) -> bool:
        """Drop held messages whose sequence was passed; start over if one of them is of a later incarnation."""
        last = self._log.last
        assert last is not None
        return any(self.restart_if_contradicted(message, now) for message in self._log.held.take_through(last))

    def give_up_missing(self) -> None:
        """Go on with the first message that is held: the batches before it are lost."""
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
