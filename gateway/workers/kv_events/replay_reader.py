"""Reader for the replies to replay requests. It decides what to do when a replay ends or breaks off."""

from gateway.workers.kv_events.batch_log import BEFORE_ALL, BatchLog
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.incarnation import Incarnation
from gateway.workers.kv_events.replay_schedule import ReplaySchedule, RunningReplay

LAST_FIRST_SEQ = 1
"""Highest sequence number that counts as the first one. Engines start at 0, and llm-d's simulator starts at 1. An
engine whose replay buffer lost only batch 0 is mistaken for one that starts at 1. Without replays, a stream whose first
batch is 1 might have lost a batch, so it never counts as complete.
"""
LONG_REPLAY = 50
"""Minimum number of batches after which a finished replay is confirmed by another one. The ROUTER of vLLM up to 0.32
drops messages above its high-water mark (ZeroMQ's default is 1,000) but sometimes still sends the end marker.
Therefore, the end marker alone does not prove that the replay is complete. A shorter replay cannot have been truncated.
"""


class ReplayReader:
    """Reader that applies the replies of replays to *log* and *incarnation*. *schedule* knows the running replay."""

    def __init__(self, log: BatchLog, schedule: ReplaySchedule, incarnation: Incarnation) -> None:
        self._log = log
        self._schedule = schedule
        self._incarnation = incarnation
        self._has_ring = False
        """Whether the engine has ever answered a replay request with any batch."""

    def replayed(self, number: int, message: BatchMessage, now: float) -> None:
        """Process *message*, which is a batch in the answer to the replay request *number*."""
        running = self._schedule.running_as(number)
        if running is None:
            return
        running.heard_at = now
        running.answers += 1
        self._has_ring = True
        if not running.has_begun:
            running.has_begun = True
            self._begin(running, message)
        last = self._log.last
        assert last is not None
        if message.seq <= last:
            self._verify_by(message, now)
        elif message.seq == last + 1:
            self._incarnation.is_verified = True
            self._log.append(message)
            self._log.append_held()
        elif not self._log.hold(message):
            self._schedule.check_soon(now)

    def ended(self, number: int, now: float) -> None:
        """Process the end marker of the replay with the request number *number*."""
        running = self._schedule.running_as(number)
        if running is None:
            return
        self._schedule.ended()
        if not running.has_begun:
            self._judge_empty(running, now)
        if self._schedule.running is None:
            self._incarnation.is_verified = True
            self._request_what_is_still_missing(running, now)

    def broke_off(self, number: int, now: float) -> None:
        """Process the failure of the replay with the request number *number*, which did not reach its end marker."""
        running = self._schedule.running_as(number)
        if running is None:
            return
        self._schedule.running = None
        if running.is_check and not self._log.held:
            return
        had_progress = self._log.last != running.last_before
        if not self._schedule.retries(now, had_progress=had_progress):
            self._go_on_without(now)
        elif had_progress:
            self._schedule.start(self._log.last, now)

    def _begin(self, running: RunningReplay, message: BatchMessage) -> None:
        """Compare *message*, which is the oldest batch of a replay, with the batch that was processed last."""
        log, incarnation = self._log, self._incarnation
        is_first_of_all = message.seq <= LAST_FIRST_SEQ
        if log.last == BEFORE_ALL and is_first_of_all and not running.rebuilds:
            log.last = message.seq - 1
        elif log.last is None or running.rebuilds or message.seq > log.last:
            # Also where it is the very next: without the one before it, its incarnation is not known.
            incarnation.rebuilds += log.last is not None
            incarnation.reset(message.seq - 1, "complete" if is_first_of_all else "partial")

    def _verify_by(self, message: BatchMessage, now: float) -> None:
        """Check whether the engine is still the same incarnation. The sequence number of *message* has already been
        processed.
        """
        if self._log.contradicts(message):
            self._incarnation.restart(None, now)
        else:
            self._incarnation.is_verified = True

    def _judge_empty(self, running: RunningReplay, now: float) -> None:
        """Interpret a replay without batches, which means that the engine has none of the requested batches."""
        last = self._log.last
        if last is None or (last == BEFORE_ALL and running.rebuilds):
            self._incarnation.reset(BEFORE_ALL, "complete")
        elif last == BEFORE_ALL:
            return
        elif not self._has_ring and (running.is_check or running.rebuilds):
            # The engine keeps nothing for replays (buffer_steps 0), so an empty one means nothing.
            self._schedule.wants_rebuild = False
        else:
            self._incarnation.restart(None, now)

    def _request_what_is_still_missing(self, running: RunningReplay, now: float) -> None:
        """Process held messages after a replay. Then request another replay, or give the missing batches up."""
        log, schedule = self._log, self._schedule
        if self._incarnation.restart_if_held_contradict(now):
            return
        log.append_held()
        if not log.held:
            schedule.caught_up()
            if running.answers >= LONG_REPLAY:
                schedule.start(log.last, now)
            return
        if schedule.is_fruitless(had_progress=log.last != running.last_before):
            self._incarnation.give_up_missing()
        if log.held:
            schedule.start(log.last, now)

    def _go_on_without(self, now: float) -> None:
        """Process published messages without verification, because replays do not work."""
        log, incarnation = self._log, self._incarnation
        self._schedule.back_off(now)
        was_verified, incarnation.is_verified = incarnation.is_verified, True
        if log.last is None:
            incarnation.is_open = not log.held
            first = log.held.take(log.held.first) if log.held else None
            if first is not None:
                incarnation.open_at(first)
                log.append(first)
        elif not was_verified:
            log.lose(0)
        if log.last is not None and not incarnation.restart_if_held_contradict(now):
            log.append_held()
            while log.held:
                incarnation.give_up_missing()
