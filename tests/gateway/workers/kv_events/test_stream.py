"""From frames to what a feed is notified."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cache_index.event import Tier
from gateway.workers.kv_events.decoding import PIECE_BLOCKS
from gateway.workers.kv_events.feed import Trust
from gateway.workers.kv_events.replay_schedule import ReplayRequest
from gateway.workers.kv_events.stream import RankStream
from tests.gateway.workers.kv_events.engines import TOPIC, DictFeed
from tests.gateway.workers.kv_events.examples import batch, cleared, removed, stored
from tests.gateway.workers.kv_events.recorded import KINDS, frames

END = [b"", b"", b"\xff" * 8, b""]


def published(seq: int, *events: Any, ts: float = 1000.0, topic: bytes = TOPIC) -> list[bytes]:
    return [topic, seq.to_bytes(8, "big"), batch(*events, ts=ts)]


def answer(seq: int, *events: Any, ts: float = 1000.0) -> list[bytes]:
    return [b"", *published(seq, *events, ts=ts)]


class Reported:
    """A stream, connected at second 0, and its feed."""

    def __init__(self, *, replays: bool = True, topic: bytes | None = None) -> None:
        self.feed = DictFeed()
        self.stream = RankStream(self.feed, replays=replays, wall_clock=lambda: 1002.0, topic=topic)
        self.now = 0.0
        self.stream.connected(self.now)

    def hear(self, *messages: list[bytes]) -> None:
        for message in messages:
            self.stream.published(message, self.now)
        self.work()

    def replay(self, *answers: list[bytes]) -> None:
        """With the end."""
        ask = self.stream.replay_request
        assert ask is not None
        for each in (*answers, END):
            self.stream.answered(ask.number, each, self.now)
        self.work()

    def wait(self, seconds: float) -> None:
        for _ in range(int(4 * seconds)):
            self.now += 0.25
            self.stream.tick(self.now)
            self.work()

    def work(self) -> None:
        while self.stream.work(self.now):
            pass

    def trust(self) -> Trust:
        return self.stream.trust

    @property
    def blocks(self) -> list[int]:
        return sorted(block for block, _ in self.feed.content.elements())


def live(*answers: list[bytes], **options: Any) -> Reported:
    """One that has caught up."""
    reported = Reported(**options)
    reported.replay(*answers)
    return reported


def test_it_is_live_when_the_past_is_known() -> None:
    """The feed has to have taken it in before."""
    reported = Reported()
    assert "catching_up" == reported.trust()
    for each in (answer(0, stored(1)), answer(1, stored(2)), END):
        reported.stream.answered(1, each, 0.0)

    assert "catching_up" == reported.trust()
    reported.work()
    assert "live" == reported.trust()
    assert ["catching_up", "live"] == reported.feed.states
    assert [1, 2] == reported.blocks
    assert 1 == reported.feed.restarts


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_engine(kind: str) -> None:
    """vLLM 0.32: its replay, and what it published, which is the same."""
    reported = Reported()
    reported.hear(*frames(kind, "published"))
    for message in frames(kind, "replayed"):
        reported.stream.answered(1, message, 0.0)
    reported.work()

    assert ("live", 6) == (reported.trust(), reported.stream.counters.batches)
    # The cache was cleared in the end, and one block stored after that.
    assert Counter({(13907755898995373680, Tier.GPU): 1}) == reported.feed.content


def test_everything_is_counted() -> None:
    """For metrics."""
    reported = live(answer(0, stored(1, 2)))
    reported.hear(
        published(1, removed(1), cleared(), ts=1001.5),
        published(1, removed(1), cleared(), ts=1001.5),
        [b"short"],
        published(2, stored(3, kv_cache_spec_kind="mamba"), ts=1001.5),
    )
    counters = reported.stream.counters

    assert ("live", None, "complete", 1) == (counters.trust, counters.doubt, counters.knowledge, counters.connections)
    assert (3, 2, 0.5) == (counters.batches, counters.last_seq, counters.lag_s)
    assert {"stored": 1, "removed": 1, "cleared": 1} == counters.events
    assert {"stored": 2, "removed": 1} == counters.blocks
    assert (1, 1, 1) == (counters.duplicates, counters.malformed, counters.replays)
    assert ({"other_group": 1}, {}) == (counters.ignored, counters.refused)
    assert (0, 0, 0, 0, 0, 0, 0) == (
        counters.late,
        counters.gaps,
        counters.lost_batches,
        counters.restarts,
        counters.rebuilds,
        counters.turned_away,
        counters.undecodable,
    )


def test_a_lag_is_of_news() -> None:
    """What is replayed is old for other reasons."""
    reported = Reported()
    reported.replay(answer(0, stored(1), ts=5.0))

    assert reported.stream.counters.lag_s is None


def test_a_long_batch_is_reported_in_slices() -> None:
    """Each is one piece of work."""
    reported = live()
    many = 3 * PIECE_BLOCKS
    reported.stream.published(published(0, stored(*range(many), parent=many)), 0.0)
    sizes = []
    while reported.stream.work(0.0):
        sizes.append(reported.feed.content.total())

    assert [PIECE_BLOCKS, 2 * PIECE_BLOCKS, many, many] == sizes


def test_a_part_of_the_past_is_stale() -> None:
    """Until somebody vouches for it; from then on as good as live, until something is lost."""
    reported = live(answer(8, stored(1)))
    assert ("stale", "partial") == (reported.trust(), reported.stream.counters.doubt)
    reported.stream.vouch(reported.now)
    assert "live" == reported.trust()
    reported.hear(published(9, stored(2)))
    assert "live" == reported.trust()
    reported.hear(published(10, {"type": "BlockStored"}))

    assert ("stale", "lost") == (reported.trust(), reported.stream.counters.doubt)
    assert {"malformed": 1} == reported.stream.counters.refused


def test_a_cleared_cache_is_known_completely() -> None:
    """Missing events before that do not matter."""
    reported = live(answer(8, stored(1)))
    reported.hear(published(9, cleared(), stored(2)))

    assert ("live", "complete") == (reported.trust(), reported.stream.counters.knowledge)
    assert [2] == reported.blocks


def test_without_replays_it_is_stale() -> None:
    """Unless it has heard the engine from the beginning."""
    late, early = Reported(replays=False), Reported(replays=False)
    assert "stale" == late.stream.trust
    late.hear(published(3, stored(1)))
    early.hear(published(0, stored(1)))

    assert ("stale", "unreplayed") == (late.stream.trust, late.stream.counters.doubt)
    assert "live" == early.stream.trust


def test_a_batch_that_cannot_be_decoded_is_lost() -> None:
    """One is survived; if most of them are so, nothing can be relied on; and that passes."""
    reported = live()
    garbage = [b"", b"", b"\xc1"]

    def garbled(seq: int) -> list[bytes]:
        return [garbage[0], seq.to_bytes(8, "big"), garbage[2]]

    reported.hear(garbled(0))
    assert ("stale", 1) == (reported.trust(), reported.stream.counters.undecodable)
    reported.hear(*(garbled(seq) for seq in range(1, 8)))
    assert ("untrusted", "undecodable") == (reported.trust(), reported.stream.counters.doubt)
    reported.hear(*(published(seq, stored(seq)) for seq in range(8, 12)))
    assert ("stale", "lost") == (reported.trust(), reported.stream.counters.doubt)
    assert [8, 9, 10, 11] == reported.blocks


def test_a_gap_that_stays_makes_it_stale() -> None:
    """Once that is sure; before, it is catching up."""
    reported = live(answer(0, stored(1)))
    reported.hear(published(2, stored(3)))
    assert "catching_up" == reported.trust()
    reported.replay(answer(0, stored(1)), answer(2, stored(3)))
    reported.replay(answer(0, stored(1)), answer(2, stored(3)))

    assert ("stale", "lost") == (reported.trust(), reported.stream.counters.doubt)
    assert (1, 1, 3) == (
        reported.stream.counters.gaps,
        reported.stream.counters.lost_batches,
        reported.stream.counters.replays,
    )
    assert [1, 3] == reported.blocks


def test_a_short_interruption_changes_nothing() -> None:
    """A longer one ends all trust, and it comes back with the connection."""
    reported = live(answer(0, stored(1)))
    reported.stream.disconnected(reported.now)
    reported.stream.disconnected(reported.now)
    reported.wait(4.0)
    assert "live" == reported.trust()
    reported.wait(2.0)
    assert ("untrusted", "not_connected") == (reported.trust(), reported.stream.counters.doubt)
    reported.stream.connected(reported.now)
    assert "catching_up" == reported.trust()
    reported.replay(answer(0, stored(1)))

    assert ["catching_up", "live", "untrusted", "catching_up", "live"] == reported.feed.states
    assert 2 == reported.stream.counters.connections
    assert [1] == reported.blocks


def test_it_begins_untrusted() -> None:
    """This is the state before the first connection."""
    stream = RankStream(DictFeed(), replays=True, wall_clock=lambda: 0.0)
    stream.tick(1.0)

    assert ("untrusted", "not_connected") == (stream.trust, stream.counters.doubt)
    assert not stream.work(1.0)


def test_a_restart_empties_the_feed() -> None:
    """It is live at once: the new incarnation is known from its beginning."""
    reported = live(answer(0, stored(1)), answer(1, stored(2)))
    reported.hear(published(0, stored(3), ts=2000.0))

    assert [3] == reported.blocks
    assert ["catching_up", "live"] == reported.feed.states
    assert 1 == reported.stream.counters.restarts


def test_doubt_rebuilds_from_the_ring() -> None:
    """Where that has everything, what is known is beyond doubt again."""
    reported = live(answer(0, stored(1)))
    reported.stream.doubt(reported.now)
    assert ReplayRequest(2, 0) == reported.stream.replay_request
    assert "inaccurate" == reported.stream.counters.doubt
    reported.feed.content[9, Tier.GPU] = 1
    reported.replay(answer(0, stored(1)), answer(1, stored(2)))

    assert [1, 2] == reported.blocks
    assert ("live", 1) == (reported.trust(), reported.stream.counters.rebuilds)


def test_doubt_that_comes_too_often_does_not_rebuild() -> None:
    """Each time would forget what the ring no longer has."""
    reported = live(answer(0, stored(1)))
    reported.stream.doubt(reported.now)
    reported.replay(answer(0, stored(1)))
    reported.stream.doubt(reported.now)

    assert (2, "stale") == (reported.stream.counters.replays, reported.trust())
    reported.stream.vouch(reported.now)
    assert "live" == reported.trust()
    reported.wait(70.0)
    replays = reported.stream.counters.replays
    reported.stream.doubt(reported.now)
    assert replays + 1 == reported.stream.counters.replays


def test_doubt_without_replays_stays() -> None:
    """Until somebody vouches."""
    reported = Reported(replays=False)
    reported.hear(published(0, stored(1)))
    reported.stream.doubt(reported.now)
    assert ("stale", "inaccurate") == (reported.trust(), reported.stream.counters.doubt)
    reported.stream.vouch(reported.now)

    assert "live" == reported.trust()


def test_replays_that_break_are_reported() -> None:
    """The subscriber reports it; after three it goes on without replays."""
    reported = Reported()
    for _ in range(3):
        while reported.stream.replay_request is None:
            reported.wait(0.25)
        reported.stream.broke(reported.stream.replay_request.number, reported.now)
    reported.hear(published(4, stored(1)))

    assert ("stale", "unreplayed", [1]) == (reported.trust(), reported.stream.counters.doubt, reported.blocks)


def test_other_topics_are_not_for_us() -> None:
    """An engine whose ring is full of them has not said nothing."""
    reported = Reported(topic=b"kv@other@tiny")
    ask = reported.stream.replay_request
    assert ask is not None
    reported.replay(answer(0, stored(1)))
    reported.hear(published(1, stored(2)), published(1, stored(3), topic=b"kv@other@tiny"))

    assert [] == reported.blocks
    assert 2 == reported.stream.counters.other_topic
    assert "catching_up" == reported.trust()
    reported.wait(10.0)
    assert "stale" == reported.trust()
    assert [3] == reported.blocks


def test_malformed_answers_are_counted() -> None:
    """They do not end the replay."""
    reported = Reported()
    assert reported.stream.replay_request is not None
    reported.stream.answered(reported.stream.replay_request.number, [b"no", b"answer"], 0.0)
    reported.stream.published([b"no"], 0.0)

    assert 2 == reported.stream.counters.malformed
    assert "catching_up" == reported.trust()


def test_a_snapshot_stays_as_it_is() -> None:
    """It does not change with the stream."""
    reported = live(answer(0, stored(1, medium="TAPE")))
    before = reported.stream.counters
    copy = replace(before, ignored=dict(before.ignored))
    reported.hear(published(1, stored(1, medium="TAPE")))

    assert copy == before
    assert {"unknown_place": 2} == reported.stream.counters.ignored
