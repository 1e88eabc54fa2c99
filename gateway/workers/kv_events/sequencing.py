"""Puts what an engine publishes into the order in which it happened, and notices when something is missing.

Pure: messages and the time come in; `steps` come out, to be applied in order, and a `replay_request`, to be sent.

1. A batch is taken in only right behind the one before it. Others are held, and a replay is requested.
2. A replay starts at the last batch that was taken in, not at the one after it: if that batch differs now, or is
   missing though nothing comes after it, the engine has restarted. Without any, it starts at 0.
3. A replay shows what the engine's ring still has. If the ring begins after the last batch that was taken in, the
   picture is rebuilt from there: it is correct, only not complete.
4. Replays are repeated as long as they bring something. A batch that two of them in a row did not bring is lost; it is
   never requested again, and the stream goes on. A long replay is confirmed by one more.
5. Nothing is taken in before the first replay of a connection has shown which incarnation of the engine it leads to.

A published message that seems to continue, but was made before the last one that was taken in, is left to the next
replay: it may be a late one of an earlier incarnation. Replays are always trusted.
"""

from collections import deque

from gateway.workers.kv_events.batch_log import BatchLog, Step
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.incarnation import Incarnation
from gateway.workers.kv_events.replay_reader import ReplayReader
from gateway.workers.kv_events.replay_schedule import ReplayRequest, ReplaySchedule, ReplayTimeouts
from gateway.workers.kv_events.waiting import WaitingRoom


class Sequencer:
    """Decides for each published message of one stream whether it continues, waits, repeats, or shows a restart.

    A stream is one rank of one worker. Without *replays*, batches that were missed cannot be requested.
    """

    def __init__(
        self, *, replays: bool, timeouts: ReplayTimeouts | None = None, held: WaitingRoom | None = None
    ) -> None:
        self._replays = replays
        self._log = BatchLog(held)
        self._schedule = ReplaySchedule(ReplayTimeouts() if timeouts is None else timeouts)
        self._incarnation = Incarnation(self._log, self._schedule, replays=replays)
        self._reader = ReplayReader(self._log, self._schedule, self._incarnation)
        self._is_connected = False
        self.gaps = 0

    @property
    def steps(self) -> deque[Step]:
        """Steps to be applied, in order; see `BatchLog.steps`."""
        return self._log.steps

    @property
    def replay_request(self) -> ReplayRequest | None:
        """The replay that should be running; one with another number replaces it."""
        return None if self._schedule.running is None else self._schedule.running.request

    @property
    def replays_started(self) -> int:
        return self._schedule.started

    @property
    def duplicates(self) -> int:
        return self._log.duplicates

    @property
    def late(self) -> int:
        """Messages of an earlier incarnation."""
        return self._log.late

    @property
    def lost(self) -> int:
        """Batches that never came."""
        return self._log.lost

    @property
    def restarts(self) -> int:
        return self._incarnation.restarts

    @property
    def rebuilds(self) -> int:
        return self._incarnation.rebuilds

    @property
    def turned_away(self) -> int:
        """Messages that could not be held; replays bring them."""
        return self._log.held.turned_away

    @property
    def is_behind(self) -> bool:
        """Whether something is missing that may still come."""
        if self._log.last is None or self._log.held:
            return not self._incarnation.is_open
        return self._schedule.is_catching_up or (self._replays and not self._incarnation.is_verified)

    # ---- connection and time

    def connected(self, now: float) -> None:
        """Published messages can be heard from now on, or again."""
        self._is_connected = True
        log = self._log
        if not self._replays:
            self._incarnation.is_open = log.last is None
            log.was_interrupted = log.was_interrupted or log.last is not None
            return
        self._schedule.connected(now)
        self._schedule.start(log.last, now)

    def disconnected(self) -> None:
        """Published messages cannot be heard any more."""
        self._is_connected = self._incarnation.is_verified = False
        self._log.was_interrupted = True
        # Held messages may be of the incarnation before; those that are not come again with a replay.
        self._log.held.clear()
        self._schedule.abandon()

    def tick(self, now: float) -> None:
        """Time has passed. Expected several times a second."""
        schedule = self._schedule
        if schedule.running is None and not (self._replays and self._is_connected):
            return
        match schedule.due(now):
            case "timeout" if schedule.running is not None:
                self._reader.broke_off(schedule.running.request.number, now)
            case "retry":
                schedule.start(self._log.last, now)
            case "rebuild":
                self.rebuild(now)
            case "check":
                schedule.start(self._log.last, now, is_check=True)

    def rebuild(self, now: float) -> None:
        """Rebuild the picture from what the engine's ring has, as soon as it answers."""
        self._schedule.wants_rebuild = self._replays
        if self._replays and self._is_connected:
            self._schedule.start(self._log.last, now)

    def cancel_rebuild(self) -> None:
        """Forget the planned rebuild: the picture is known to be right for another reason."""
        self._schedule.cancel_rebuild()

    # ---- replays

    def replayed(self, number: int, message: BatchMessage, now: float) -> None:
        """Process *message*, an answer to the replay request *number*."""
        self._reader.replayed(number, message, now)

    def replay_ended(self, number: int, now: float) -> None:
        """All answers to the replay request *number* have come."""
        self._reader.ended(number, now)

    def replay_broke(self, number: int, now: float) -> None:
        """No more answers to the replay request *number* will come, though it has not ended."""
        self._reader.broke_off(number, now)

    # ---- published messages

    def live(self, message: BatchMessage, now: float) -> None:
        """Process, hold or ignore the published *message*."""
        self._schedule.heard(now)
        log, incarnation = self._log, self._incarnation
        if not self._is_connected:
            if self._replays:
                # It is of the connection before, and comes again if it is needed.
                log.late += 1
                return
            self.connected(now)
        if incarnation.is_open:
            incarnation.open_at(message)
        if log.last is None or (self._replays and (not incarnation.is_verified or self._schedule.wants_rebuild)):
            self._hold(message, now)
        elif message.seq <= log.last:
            incarnation.restart_if_contradicted(message, now)
        elif message.seq == log.last + 1 and not log.is_late(message):
            self._continue_with(message)
        elif self._replays:
            self._request_missing_before(message, now)
        else:
            self._skip_to(message)

    def _continue_with(self, message: BatchMessage) -> None:
        if self._log.was_interrupted and not self._replays:
            # The sequence continues, which may be a coincidence.
            self._log.lose(0)
        self._log.append(message)
        self._log.append_held()

    def _hold(self, message: BatchMessage, now: float) -> None:
        if not self._log.hold(message):
            # If nothing follows it, nothing else would reveal that it is missing.
            self._schedule.check_soon(now)

    def _request_missing_before(self, message: BatchMessage, now: float) -> None:
        self._hold(message, now)
        schedule = self._schedule
        if schedule.running is not None:
            schedule.running.is_check = False
        elif not schedule.is_retrying:
            self.gaps += 1
            schedule.start(self._log.last, now)

    def _skip_to(self, message: BatchMessage) -> None:
        """Go on with *message*, which comes after a gap, where replays are not available."""
        log = self._log
        assert log.last is not None
        self.gaps += 1
        if log.is_late(message):
            log.late += 1
        elif log.was_interrupted:
            # It may be another incarnation whose beginning was missed.
            self._incarnation.open_at(message)
            log.append(message)
        else:
            log.lose(message.seq - log.last - 1)
            log.append(message)
