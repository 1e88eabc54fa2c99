"""Converter from the message frames of one rank to index updates and a level of trust, without any I/O or clock.

Frames are accepted immediately. `work` processes them in slices, so that requests can be served between slices.
"""

from collections.abc import Callable, Iterator, Sequence

from cache_index.event import Cleared, Event
from gateway.workers.kv_events.batch_log import Knowledge, Lost, Reset, Step
from gateway.workers.kv_events.counters import Doubt, StreamCounters
from gateway.workers.kv_events.decoding import Decoder, UndecodableError
from gateway.workers.kv_events.feed import Feed, Trust
from gateway.workers.kv_events.frames import BatchMessage, Marker, read_live, read_replayed
from gateway.workers.kv_events.replay_schedule import ReplayRequest, ReplayTimeouts
from gateway.workers.kv_events.sequencing import Sequencer

DOWN_S = 5.0
"""Seconds without a connection after which the index is no longer trusted. Brief network outages are shorter."""
REBUILD_INTERVAL_S = 60.0
"""Minimum seconds between two rebuilds of the index. Each rebuild forgets blocks that no replay contains."""
GARBLED_SHARE = 0.5
GARBLED_MEMORY = 0.9
"""Weight of past batches in the moving average of undecodable batches. Seven consecutive undecodable batches make it
reach half.
"""


class RankStream:
    """Stream that applies the events of one rank to *feed*, which is untrusted at first. *wall_clock* returns seconds
    since 1970.
    """

    def __init__(
        self,
        feed: Feed,
        *,
        replays: bool,
        wall_clock: Callable[[], float],
        topic: bytes | None = None,
        timeouts: ReplayTimeouts | None = None,
    ) -> None:
        """Create the stream. Only messages with exactly the topic *topic* are accepted. None accepts all topics."""
        self._feed = feed
        self._wall_clock = wall_clock
        self._topic = topic
        self._sequencer = Sequencer(replays=replays, timeouts=timeouts)
        self._decoder = Decoder()
        self._pieces: Iterator[list[Event]] | None = None
        self._refused_before = 0

        self._trust: Trust = "untrusted"
        self._knowledge: Knowledge = "unreplayed"
        self._is_vouched = False
        self._is_doubted = False
        self._garbled_share = 0.0
        self._is_connected = False
        self._down_since: float | None = None
        self._other_topic_ask: int | None = None
        self._rebuild_not_before = float("-inf")

        self._connections = 0
        self._batches = 0
        self._undecodable = 0
        self._malformed = 0
        self._other_topic = 0
        self._last_seq: int | None = None
        self._lag_s: float | None = None

    @property
    def trust(self) -> Trust:
        return self._trust

    @property
    def replay_request(self) -> ReplayRequest | None:
        return self._sequencer.replay_request

    @property
    def counters(self) -> StreamCounters:
        sequencer, decoder = self._sequencer, self._decoder
        return StreamCounters(
            trust=self._trust,
            doubt=self._doubt(),
            knowledge=self._knowledge,
            connections=self._connections,
            batches=self._batches,
            events={
                "stored": decoder.stored_events,
                "removed": decoder.removed_events,
                "cleared": decoder.cleared_events,
            },
            blocks={"stored": decoder.stored_blocks, "removed": decoder.removed_blocks},
            duplicates=sequencer.duplicates,
            late=sequencer.late,
            gaps=sequencer.gaps,
            lost_batches=sequencer.lost,
            replays=sequencer.replays_started,
            restarts=sequencer.restarts,
            rebuilds=sequencer.rebuilds,
            turned_away=sequencer.turned_away,
            undecodable=self._undecodable,
            malformed=self._malformed,
            other_topic=self._other_topic,
            ignored=dict(decoder.ignored),
            refused=dict(decoder.refused),
            last_seq=self._last_seq,
            lag_s=self._lag_s,
        )

    # ---- what happens

    def connected(self, now: float) -> None:
        self._connections += 1
        self._is_connected = True
        self._down_since = None
        self._sequencer.connected(now)
        self._judge(now)

    def disconnected(self, now: float) -> None:
        if self._is_connected:
            self._is_connected = False
            self._down_since = now
            self._sequencer.disconnected()
            self._judge(now)

    def published(self, frames: Sequence[bytes], now: float) -> None:
        """Process the frames *frames* of a message from the engine's PUB socket."""
        message = read_live(frames)
        if message is None:
            self._malformed += 1
        elif self._is_ours(message):
            self._sequencer.live(message, now)
            self._judge(now)

    def answered(self, number: int, frames: Sequence[bytes], now: float) -> None:
        """Process the frames *frames* of a reply from the engine's ROUTER socket to the replay request *number*."""
        match read_replayed(frames):
            case Marker.MALFORMED:
                self._malformed += 1
            case Marker.END if self._other_topic_ask == number:
                # What the engine has was not for us, so that there was nothing for us says nothing.
                self._sequencer.replay_broke(number, now)
            case Marker.END:
                self._sequencer.replay_ended(number, now)
            case BatchMessage() as message if self._is_ours(message):
                self._sequencer.replayed(number, message, now)
            case _:
                self._other_topic_ask = number
        self._judge(now)

    def broke(self, number: int, now: float) -> None:
        """Process the failure of the replay with the request number *number*. No more replies will arrive."""
        self._sequencer.replay_broke(number, now)
        self._judge(now)

    def tick(self, now: float) -> None:
        """Update timeouts and trust at the time *now*. Call this several times per second."""
        self._sequencer.tick(now)
        self._judge(now)

    def doubt(self, now: float) -> None:
        """Mark the stream as stale and rebuild its index, because the index contradicts the hits that the engine
        reports.

        The stream becomes live again after a call of `vouch`, a restart or cache clearing of the engine, or a rebuild
        from a replay buffer that starts with the first batch.
        """
        self._is_doubted = True
        self._is_vouched = False
        if now >= self._rebuild_not_before:
            self._rebuild_not_before = now + REBUILD_INTERVAL_S
            self._sequencer.rebuild(now)
        self._judge(now)

    def vouch(self, now: float) -> None:
        """Treat the index as complete until more batches are lost, because it agrees with the cache hits that the
        engine reports.
        """
        self._is_doubted = False
        self._is_vouched = True
        self._sequencer.cancel_rebuild()
        self._judge(now)

    # ---- the work that it makes

    def work(self, now: float) -> bool:
        """Process one step of work, which takes about 0.5 ms, or 1 ms at most. Return whether work is left."""
        if self._pieces is not None:
            self._continue_batch(self._pieces)
        elif self._sequencer.steps:
            self._do(self._sequencer.steps.popleft())
        else:
            return False
        self._judge(now)
        return True

    def _do(self, step: Step) -> None:
        match step:
            case Reset():
                self._garbled_share = 0.0
                self._learn(step.knowledge)
                self._is_doubted = False
                self._feed.restarted()
            case Lost():
                self._learn("lost")
            case BatchMessage():
                self._last_seq = step.seq
                self._refused_before = self._decoder.refused.total()
                if step.ts is not None and self._trust in ("live", "stale"):
                    self._lag_s = self._wall_clock() - step.ts
                self._continue_batch(self._decoder.decode(step.payload))

    def _continue_batch(self, pieces: Iterator[list[Event]]) -> None:
        try:
            events = next(pieces, None)
        except UndecodableError:
            self._undecodable += 1
            self._learn("lost")
            self._end_batch(is_garbled=True)
            return
        if events is None:
            self._batches += 1
            if self._decoder.refused.total() != self._refused_before:
                self._learn("lost")
            self._end_batch(is_garbled=False)
            return
        self._pieces = pieces
        self._feed.apply(events)
        if any(isinstance(event, Cleared) for event in events):
            # The engine holds nothing, and so does the feed, whatever was missed before.
            self._learn("complete")
            self._is_doubted = False
            self._sequencer.cancel_rebuild()

    def _end_batch(self, *, is_garbled: bool) -> None:
        self._pieces = None
        self._garbled_share = GARBLED_MEMORY * self._garbled_share + (1 - GARBLED_MEMORY) * is_garbled

    def _learn(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._is_vouched = False

    def _is_ours(self, message: BatchMessage) -> bool:
        is_ours = self._topic is None or message.topic is None or message.topic == self._topic
        self._other_topic += not is_ours
        return is_ours

    # ---- trust

    def _judge(self, now: float) -> None:
        state = self._state(now)
        was_behind = self._trust in ("catching_up", "untrusted")
        has_work = self._pieces is not None or bool(self._sequencer.steps)
        if state == self._trust or (state in ("live", "stale") and was_behind and has_work):
            return
        self._trust = state
        self._feed.trusted(state)

    def _state(self, now: float) -> Trust:
        is_down = not self._is_connected and (self._down_since is None or now - self._down_since >= DOWN_S)
        if is_down or self._garbled_share > GARBLED_SHARE:
            return "untrusted"
        if self._sequencer.is_behind:
            return "catching_up" if self._is_connected else self._trust
        return "live" if self._doubt() is None else "stale"

    def _doubt(self) -> Doubt | None:
        if not self._is_connected and (self._trust == "untrusted" or self._down_since is None):
            return "not_connected"
        if self._garbled_share > GARBLED_SHARE:
            return "undecodable"
        if self._is_doubted:
            return "inaccurate"
        return None if self._is_vouched or self._knowledge == "complete" else self._knowledge
