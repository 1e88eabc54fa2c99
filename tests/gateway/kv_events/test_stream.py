"""From frames to what a feed is told."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cache_index.event import Tier
from gateway.kv_events.decoding import PIECE_BLOCKS
from gateway.kv_events.feed import Trust
from gateway.kv_events.sequencing import Ask
from gateway.kv_events.stream import Stream
from tests.gateway.kv_events.engines import TOPIC, DictFeed
from tests.gateway.kv_events.examples import batch, cleared, removed, stored
from tests.gateway.kv_events.recorded import KINDS, frames

END = [b"", b"", b"\xff" * 8, b""]


def published(seq: int, *events: Any, ts: float = 1000.0, topic: bytes = TOPIC) -> list[bytes]:
    return [topic, seq.to_bytes(8, "big"), batch(*events, ts=ts)]


def answer(seq: int, *events: Any, ts: float = 1000.0) -> list[bytes]:
    return [b"", *published(seq, *events, ts=ts)]


class Told:
    """A stream, connected at second 0, and its feed."""

    def __init__(self, *, replays: bool = True, topic: bytes | None = None) -> None:
        self.feed = DictFeed()
        self.stream = Stream(self.feed, replays=replays, wall_clock=lambda: 1002.0, topic=topic)
        self.now = 0.0
        self.stream.connected(self.now)

    def hear(self, *messages: list[bytes]) -> None:
        for message in messages:
            self.stream.published(message, self.now)
        self.work()

    def replay(self, *answers: list[bytes]) -> None:
        """With the end."""
        ask = self.stream.ask
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


def live(*answers: list[bytes], **options: Any) -> Told:
    """One that has caught up."""
    told = Told(**options)
    told.replay(*answers)
    return told


def test_it_is_live_when_the_past_is_known() -> None:
    """And not before the feed has taken it in."""
    told = Told()
    assert "catching_up" == told.trust()
    for each in (answer(0, stored(1)), answer(1, stored(2)), END):
        told.stream.answered(1, each, 0.0)

    assert "catching_up" == told.trust()
    told.work()
    assert "live" == told.trust()
    assert ["catching_up", "live"] == told.feed.states
    assert [1, 2] == told.blocks
    assert 1 == told.feed.restarts


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_engine(kind: str) -> None:
    """vLLM 0.32: its replay, and what it published, which is the same."""
    told = Told()
    told.hear(*frames(kind, "published"))
    for message in frames(kind, "replayed"):
        told.stream.answered(1, message, 0.0)
    told.work()

    assert ("live", 6) == (told.trust(), told.stream.counters.batches)
    # The cache was cleared in the end, and one block stored after that.
    assert Counter({(13907755898995373680, Tier.GPU): 1}) == told.feed.content


def test_everything_is_counted() -> None:
    """For metrics."""
    told = live(answer(0, stored(1, 2)))
    told.hear(
        published(1, removed(1), cleared(), ts=1001.5),
        published(1, removed(1), cleared(), ts=1001.5),
        [b"short"],
        published(2, stored(3, kv_cache_spec_kind="mamba"), ts=1001.5),
    )
    counters = told.stream.counters

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
    told = Told()
    told.replay(answer(0, stored(1), ts=5.0))

    assert told.stream.counters.lag_s is None


def test_a_long_batch_is_told_in_slices() -> None:
    """Each is one piece of work."""
    told = live()
    many = 3 * PIECE_BLOCKS
    told.stream.published(published(0, stored(*range(many), parent=many)), 0.0)
    sizes = []
    while told.stream.work(0.0):
        sizes.append(told.feed.content.total())

    assert [PIECE_BLOCKS, 2 * PIECE_BLOCKS, many, many] == sizes


def test_a_part_of_the_past_is_stale() -> None:
    """Until somebody vouches for it; from then on as good as live, until something is lost."""
    told = live(answer(8, stored(1)))
    assert ("stale", "partial") == (told.trust(), told.stream.counters.doubt)
    told.stream.vouch(told.now)
    assert "live" == told.trust()
    told.hear(published(9, stored(2)))
    assert "live" == told.trust()
    told.hear(published(10, {"type": "BlockStored"}))

    assert ("stale", "lost") == (told.trust(), told.stream.counters.doubt)
    assert {"malformed": 1} == told.stream.counters.refused


def test_a_cleared_cache_is_known_completely() -> None:
    """Whatever was not heard before."""
    told = live(answer(8, stored(1)))
    told.hear(published(9, cleared(), stored(2)))

    assert ("live", "complete") == (told.trust(), told.stream.counters.knowledge)
    assert [2] == told.blocks


def test_without_replays_it_is_stale() -> None:
    """Unless it has heard the engine from the beginning."""
    late, early = Told(replays=False), Told(replays=False)
    assert "stale" == late.stream.trust
    late.hear(published(3, stored(1)))
    early.hear(published(0, stored(1)))

    assert ("stale", "unreplayed") == (late.stream.trust, late.stream.counters.doubt)
    assert "live" == early.stream.trust


def test_a_batch_that_cannot_be_decoded_is_lost() -> None:
    """One is survived; if most of them are so, nothing can be relied on; and that passes."""
    told = live()
    garbage = [b"", b"", b"\xc1"]

    def garbled(seq: int) -> list[bytes]:
        return [garbage[0], seq.to_bytes(8, "big"), garbage[2]]

    told.hear(garbled(0))
    assert ("stale", 1) == (told.trust(), told.stream.counters.undecodable)
    told.hear(*(garbled(seq) for seq in range(1, 8)))
    assert ("untrusted", "undecodable") == (told.trust(), told.stream.counters.doubt)
    told.hear(*(published(seq, stored(seq)) for seq in range(8, 12)))
    assert ("stale", "lost") == (told.trust(), told.stream.counters.doubt)
    assert [8, 9, 10, 11] == told.blocks


def test_a_gap_that_stays_makes_it_stale() -> None:
    """Once that is sure; before, it is catching up."""
    told = live(answer(0, stored(1)))
    told.hear(published(2, stored(3)))
    assert "catching_up" == told.trust()
    told.replay(answer(0, stored(1)), answer(2, stored(3)))
    told.replay(answer(0, stored(1)), answer(2, stored(3)))

    assert ("stale", "lost") == (told.trust(), told.stream.counters.doubt)
    assert (1, 1, 3) == (
        told.stream.counters.gaps,
        told.stream.counters.lost_batches,
        told.stream.counters.replays,
    )
    assert [1, 3] == told.blocks


def test_a_short_interruption_changes_nothing() -> None:
    """A longer one ends all trust, and it comes back with the connection."""
    told = live(answer(0, stored(1)))
    told.stream.disconnected(told.now)
    told.stream.disconnected(told.now)
    told.wait(4.0)
    assert "live" == told.trust()
    told.wait(2.0)
    assert ("untrusted", "not_connected") == (told.trust(), told.stream.counters.doubt)
    told.stream.connected(told.now)
    assert "catching_up" == told.trust()
    told.replay(answer(0, stored(1)))

    assert ["catching_up", "live", "untrusted", "catching_up", "live"] == told.feed.states
    assert 2 == told.stream.counters.connections
    assert [1] == told.blocks


def test_it_begins_untrusted() -> None:
    """As long as it was never connected."""
    stream = Stream(DictFeed(), replays=True, wall_clock=lambda: 0.0)
    stream.tick(1.0)

    assert ("untrusted", "not_connected") == (stream.trust, stream.counters.doubt)
    assert not stream.work(1.0)


def test_a_restart_empties_the_feed() -> None:
    """And it is live at once: the new life is known from its beginning."""
    told = live(answer(0, stored(1)), answer(1, stored(2)))
    told.hear(published(0, stored(3), ts=2000.0))

    assert [3] == told.blocks
    assert ["catching_up", "live"] == told.feed.states
    assert 1 == told.stream.counters.restarts


def test_doubt_rebuilds_from_the_ring() -> None:
    """Where that has everything, what is known is beyond doubt again."""
    told = live(answer(0, stored(1)))
    told.stream.doubt(told.now)
    assert Ask(2, 0) == told.stream.ask
    assert "inaccurate" == told.stream.counters.doubt
    told.feed.content[9, Tier.GPU] = 1
    told.replay(answer(0, stored(1)), answer(1, stored(2)))

    assert [1, 2] == told.blocks
    assert ("live", 1) == (told.trust(), told.stream.counters.rebuilds)


def test_doubt_that_comes_too_often_does_not_rebuild() -> None:
    """Each time would forget what the ring no longer has."""
    told = live(answer(0, stored(1)))
    told.stream.doubt(told.now)
    told.replay(answer(0, stored(1)))
    told.stream.doubt(told.now)

    assert (2, "stale") == (told.stream.counters.replays, told.trust())
    told.stream.vouch(told.now)
    assert "live" == told.trust()
    told.wait(70.0)
    replays = told.stream.counters.replays
    told.stream.doubt(told.now)
    assert replays + 1 == told.stream.counters.replays


def test_doubt_without_replays_stays() -> None:
    """Until somebody vouches."""
    told = Told(replays=False)
    told.hear(published(0, stored(1)))
    told.stream.doubt(told.now)
    assert ("stale", "inaccurate") == (told.trust(), told.stream.counters.doubt)
    told.stream.vouch(told.now)

    assert "live" == told.trust()


def test_replays_that_break_are_told() -> None:
    """By whoever runs them; three such make it go on without."""
    told = Told()
    for _ in range(3):
        while told.stream.ask is None:
            told.wait(0.25)
        told.stream.broke(told.stream.ask.number, told.now)
    told.hear(published(4, stored(1)))

    assert ("stale", "unreplayed", [1]) == (told.trust(), told.stream.counters.doubt, told.blocks)


def test_other_topics_are_not_for_us() -> None:
    """An engine whose ring is full of them has not said nothing."""
    told = Told(topic=b"kv@other@tiny")
    ask = told.stream.ask
    assert ask is not None
    told.replay(answer(0, stored(1)))
    told.hear(published(1, stored(2)), published(1, stored(3), topic=b"kv@other@tiny"))

    assert [] == told.blocks
    assert 2 == told.stream.counters.other_topic
    assert "catching_up" == told.trust()
    told.wait(10.0)
    assert "stale" == told.trust()
    assert [3] == told.blocks


def test_malformed_answers_are_counted() -> None:
    """And are no end."""
    told = Told()
    assert told.stream.ask is not None
    told.stream.answered(told.stream.ask.number, [b"no", b"answer"], 0.0)
    told.stream.published([b"no"], 0.0)

    assert 2 == told.stream.counters.malformed
    assert "catching_up" == told.trust()


def test_a_snapshot_stays_as_it_is() -> None:
    """It does not change with the stream."""
    told = live(answer(0, stored(1, medium="TAPE")))
    before = told.stream.counters
    copy = replace(before, ignored=dict(before.ignored))
    told.hear(published(1, stored(1, medium="TAPE")))

    assert copy == before
    assert {"unknown_place": 2} == told.stream.counters.ignored
