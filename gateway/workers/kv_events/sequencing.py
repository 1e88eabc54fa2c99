"""Put the batches that an engine publishes in order, and detect missing batches and restarts.

This package does no I/O. Its inputs are messages and the time. Its outputs are `steps`, to be applied in order, and a
`replay_request`, to be sent.

1. A batch is processed only directly after its predecessor. Other batches are held, and a replay is requested.
2. A replay starts at the last processed batch, or at 0 if there is no such batch. If the replayed batch differs from
   the processed one, or the replay is empty, the engine has restarted.
3. If the replay buffer starts after the last processed batch, the index is rebuilt from the start of the buffer. It is
   then correct but incomplete.
4. Replays are repeated as long as they make progress. A batch that is missing from two successive replays counts as
   lost. It is not requested again, and the stream continues. A long replay is confirmed by another one.
5. After a connection, no batch is processed until a replay has shown which incarnation of the engine is connected.

A published message may seem to be the next one but be older than the last processed batch. It is left to the next
replay, because it may belong to an earlier incarnation. Replays are always trusted.
"""

from collections import deque

from gateway.workers.kv_events.batch_log import BatchLog, Step
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.incarnation import Incarnation
from gateway.workers.kv_events.replay_reader import ReplayReader
from gateway.workers.kv_events.replay_schedule import ReplayRequest, ReplaySchedule, ReplayTimeouts
from gateway.workers.kv_events.waiting import WaitingRoom


class Sequencer:
    """Decision for each published message: process it, hold it, drop it as a duplicate, or detect a restart by it.

    A stream comes from one data-parallel rank of a worker. If *replays* is false, missed batches cannot be requested.
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
        """Steps to apply to the index, in order; see `BatchLog.steps`."""
        return self._log.steps

    @property
    def replay_request(self) -> ReplayRequest | None:
        """Replay that should be running, or None. A new request number means that it replaces the running replay."""
        return None if self._schedule.running is None else self._schedule.running.request

    @property
    def replays_started(self) -> int:
        return self._schedule.started

    @property
    def duplicates(self) -> int:
        return self._log.duplicates

    @property
    def late(self) -> int:
        """Number of messages from an earlier incarnation of the engine."""
        return self._log.late

    @property
    def lost(self) -> int:
        """Number of batches that were never received."""
        return self._log.lost

    @property
    def restarts(self) -> int:
        return self._incarnation.restarts

    @property
    def rebuilds(self) -> int:
        return self._incarnation.rebuilds

    @property
    def turned_away(self) -> int:
        """Number of messages that could not be held because there was no space. Replays recover them."""
        return self._log.held.turned_away

    @property
    def is_behind(self) -> bool:
        """Whether batches are missing that could still arrive."""
        if self._log.last is None or self._log.held:
            return not self._incarnation.is_open
        return self._schedule.is_catching_up or (self._replays and not self._incarnation.is_verified)

    # ---- connection and time

    def connected(self, now: float) -> None:
        """Record that the connection was opened, so that published messages can now be received."""
        self._is_connected = True
        log = self._log
        if not self._replays:
            self._incarnation.is_open = log.last is None
            log.was_interrupted = log.was_interrupted or log.last is not None
            return
        self._schedule.connected(now)
        self._schedule.start(log.last, now)

    def disconnected(self) -> None:
        """Record that the connection was lost, so that published messages can now be missed."""
        self._is_connected = self._incarnation.is_verified = False
        self._log.was_interrupted = True
        # Held messages may be of the incarnation before; those that are not come again with a replay.
        self._log.held.clear()
        self._schedule.abandon()

    def tick(self, now: float) -> None:
        """Start replays, and end overdue ones, according to the time *now*. Call this several times per second."""
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
        """Rebuild the index from the engine's replay buffer as soon as the engine answers."""
        self._schedule.wants_rebuild = self._replays
        if self._replays and self._is_connected:
            self._schedule.start(self._log.last, now)

    def cancel_rebuild(self) -> None:
        """Cancel the planned index rebuild, because the index was found to be correct."""
        self._schedule.cancel_rebuild()

    # ---- replays

    def replayed(self, number: int, message: BatchMessage, now: float) -> None:
        """Process *message*, which is a batch in the answer to the replay request *number*."""
        self._reader.replayed(number, message, now)

    def replay_ended(self, number: int, now: float) -> None:
        """Process the end marker of the replay with the request number *number*."""
        self._reader.ended(number, now)

    def replay_broke(self, number: int, now: float) -> None:
        """Process the failure of the replay with the request number *number*, which did not reach its end marker."""
        self._reader.broke_off(number, now)

    # ---- published messages

    def live(self, message: BatchMessage, now: float) -> None:
        """Process, hold or ignore the published message *message*."""
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
        """Process *message* although earlier batches are missing, because replays are not available."""
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
