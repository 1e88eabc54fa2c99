"""Whatever the transport does to what an engine says: as long as the stream is live, its feed is right."""

import random
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from cache_index import WorkerId
from cache_index.event import Event, Tier
from cache_index.hit import Hit
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher, pack, scope_of
from gateway.workers.kv_events.stream import RankStream
from tests.gateway.workers.kv_events.engines import BLOCK_SIZE, Content, DictEngine, DictFeed

WORKER = WorkerId("w")
HASHER = TokenHasher(b"k" * 32)


class IndexFeed(DictFeed):
    """Fills the index as well, which has to agree with the engine about every prefix."""

    def __init__(self) -> None:
        super().__init__()
        self._index = Residency(HASHER, max_bytes=2**26)
        self._checked: Content | None = None

    def apply(self, events: Sequence[Event]) -> None:
        super().apply(events)
        for event in events:
            self._index.apply(WORKER, event, model="tiny")

    def restarted(self) -> None:
        super().restarted()
        self._index.drop(WORKER)

    def check(self, engine: DictEngine, content: Content) -> None:
        if content == self._checked:
            return
        self._checked = content
        for tier in (Tier.GPU, Tier.CPU):
            assert sum(place is tier for _, place in content) == self._index.held_in(WORKER, tier)
        for block, _ in content:
            chain = engine.chain_to(block)
            there = [any(content[each, tier] for tier in (Tier.GPU, Tier.CPU)) for each in chain]
            ids = pack([token for each in chain for token in engine.tokens[each]])
            prefix = HASHER.prefix(ids, block_size=BLOCK_SIZE, scope=scope_of("tiny"))
            hit = self._index.match(prefix).get(WORKER, Hit(0))
            assert [*there, False].index(False) == hit.blocks


class World:
    """An engine, what it has said and is on its way, and a stream at the other end.

    Each method that takes a number does one thing, if it can be done; the number says to what, or how often.
    """

    def __init__(self, engine: DictEngine, *, replays: bool) -> None:
        self.now = 0.0
        self.engine = engine
        self.replays = replays
        self.feed = IndexFeed()
        self.stream = RankStream(self.feed, replays=replays, wall_clock=lambda: self.engine.ts)
        self.published: list[list[bytes]] = []
        self.answers: list[tuple[int, list[bytes]]] = []
        self.served = 0
        self.is_connected = False
        self.connect(0)

    # ---- the engine

    def say(self, number: int) -> None:
        for _ in range(1 + number % 4):
            frames = self.engine.step()
            if self.is_connected:
                self.published.append(frames)

    def burn(self, _: int) -> None:
        if self.engine.said:
            self.engine.burn()

    def restart(self, number: int) -> None:
        """A connection leads to one life only."""
        self.disconnect(number)
        self.engine.restart()

    # ---- what it publishes

    def deliver(self, number: int) -> None:
        for frames in self.published[: 1 + number]:
            self.stream.published(frames, self.now)
        del self.published[: 1 + number]
        self.work()

    def lose(self, number: int) -> None:
        del self.published[number : number + 1]

    def duplicate(self, number: int) -> None:
        self.published[number:number] = self.published[number : number + 1]

    def delay(self, number: int) -> None:
        if self.published:
            self.published.insert(number, self.published.pop(0))

    # ---- the connection

    def disconnect(self, number: int) -> None:
        """What is on its way may still be read."""
        self.stream.disconnected(self.now)
        self.is_connected = False
        self.answers.clear()
        if number % 2:
            self.published.clear()

    def connect(self, _: int) -> None:
        if not self.is_connected:
            self.is_connected = True
            if not self.replays:
                # Nothing could tell whose these are; a subscriber reads all of a connection before it notes the next.
                self.published.clear()
            self.stream.connected(self.now)

    # ---- replays

    def serve(self, _: int) -> None:
        ask = self.stream.replay_request
        if not self.is_connected or ask is None or ask.number == self.served:
            return
        self.served = ask.number
        if self.engine.first_seq == 0 and self.engine.ring and self.engine.ring[0][0] == 1:
            # A ring that has lost its batch 0 looks like an engine that began at 1.
            self.engine.ring.popleft()
        self.answers = [(ask.number, frames) for frames in self.engine.replay(ask.start)]

    def answer(self, number: int) -> None:
        for ask, frames in self.answers[: 1 + 3 * number]:
            self.stream.answered(ask, frames, self.now)
        del self.answers[: 1 + 3 * number]
        self.work()

    def lose_answer(self, number: int) -> None:
        """A ROUTER drops what is beyond its high-water mark, so never the first."""
        del self.answers[number + 1 : number + 2]

    def cut_answers_short(self, number: int) -> None:
        """The end marker is lost like any other."""
        del self.answers[number:]

    # ---- time, and judgements from outside

    def wait(self, number: int) -> None:
        self.now += (0.5, 3.0, 40.0, 700.0)[number % 4]
        self.stream.tick(self.now)
        self.work()

    def doubt(self, _: int) -> None:
        self.stream.doubt(self.now)

    # ---- what holds

    def check(self) -> None:
        """If the stream is live, the feed is as the engine was after some batch, which its last block names."""
        if self.stream.trust == "live":
            marks = [block for block, _ in self.feed.content if block in self.engine.after]

            assert len(marks) <= 1
            content = self.engine.after[marks[0]] if marks else Content()
            assert content == self.feed.content
            self.feed.check(self.engine, content)

    def heal(self) -> None:
        """From now on nothing goes wrong any more, and the engine says something."""
        self.connect(0)
        self.say(0)
        self.rest()
        self.say(0)
        self.rest()

    def rest(self) -> None:
        """Until nothing happens any more."""
        for _ in range(40):
            self.wait(0)
            while self.published:
                self.deliver(7)
            while self.answers or ((ask := self.stream.replay_request) is not None and ask.number != self.served):
                self.serve(0)
                self.answer(7)

    def work(self) -> None:
        while self.stream.work(self.now):
            pass


DEEDS: list[Callable[[World, int], None]] = [
    *(World.say, World.deliver, World.serve, World.answer) * 4,
    *(World.connect, World.wait) * 2,
    World.burn,
    World.restart,
    World.lose,
    World.duplicate,
    World.delay,
    World.disconnect,
    World.lose_answer,
    World.cut_answers_short,
    World.doubt,
]
DEED = st.tuples(st.sampled_from(DEEDS), st.integers(0, 7))


@settings(max_examples=60, deadline=None)
@given(
    deeds=st.lists(DEED, max_size=80),
    seed=st.integers(0, 2**32),
    first_seq=st.sampled_from([0, 1]),
    kept=st.sampled_from([3, 8, 1000]),
    as_arrays=st.booleans(),
    topic_in_replay=st.booleans(),
    replays=st.sampled_from([True, True, True, False]),
)
def test_a_live_stream_is_right(
    deeds: list[tuple[Callable[[World, int], None], int]],
    seed: int,
    first_seq: int,
    kept: int,
    as_arrays: bool,
    topic_in_replay: bool,
    replays: bool,
) -> None:
    """At every moment; and once nothing goes wrong any more it comes to rest, and is live if that is possible."""
    engine = DictEngine(
        random.Random(seed), first_seq=first_seq, kept=kept, as_arrays=as_arrays, topic_in_replay=topic_in_replay
    )
    run(World(engine, replays=replays), deeds)


def run(world: World, deeds: list[tuple[Callable[[World, int], None], int]]) -> None:
    for deed, number in deeds:
        deed(world, number)
        world.check()
    world.heal()
    world.check()
    assert world.stream.trust in ("live", "stale")
    if world.replays:
        if world.stream.trust == "stale":
            world.now += 1000.0
            world.stream.doubt(world.now)
            world.rest()
            world.check()
        assert_it_is_as_right_as_it_can_be(world)


def assert_it_is_as_right_as_it_can_be(world: World) -> None:
    asks = world.stream.counters.replays
    world.rest()

    assert world.stream.counters.replays <= asks + 5, "at rest it only looks whether the engine is silent"
    if not world.engine.has_burnt:
        assert world.feed.content <= world.engine.content
        if world.engine.ring[0][0] == world.engine.first_seq:
            assert "live" == world.stream.trust
            assert world.engine.content == world.feed.content
