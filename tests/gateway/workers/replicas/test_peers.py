"""Two fleets kept in step by what one reports its bookings, whatever is lost on the way."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from cache_index import WorkerId
from gateway.workers.replicas.outbox import BookingOutbox
from gateway.workers.replicas.peers import ASK_EVERY_S, MAX_PEERS, Peers
from gateway.workers.replicas.wire import (
    Beat,
    Began,
    Booked,
    BookingSnapshot,
    Entry,
    EntryBatch,
    Farewell,
    Released,
    SnapshotRequest,
)
from routing.booking import Booking
from routing.fleet import Fleet
from tests.gateway.workers.replicas.test_outbox import watched
from tests.routing.examples import ABORTED, ANSWERED, FAILED, A, B, C, a_fleet, a_request, book, prompt

ONE, OTHER = b"1" * 16, b"2" * 16


def a_booked(
    number: int, *, letters: str = "", worker: WorkerId = A, model: str = "tiny", begun: bool = False
) -> Booked:
    return Booked(
        number, model, worker, 16.0 * len(letters), 100.0, True, has_begun=begun, hashes=prompt(letters).hashes
    )


def peers_of(fleet: Fleet) -> Peers:
    return Peers({"tiny": fleet}.get)


def load(fleet: Fleet, worker: WorkerId = A, now: float = 0.0) -> tuple[int, int]:
    """Pending and generating."""
    reading = fleet.worker(worker).load(now)
    return reading.pending, reading.decodes


def hit(fleet: Fleet, letters: str, worker: WorkerId = A) -> int:
    return next(c.hit_blocks for c in fleet.candidates(a_request(letters), 0.0) if c.worker == worker)


def tell(peers: Peers, *entries: Entry, first: int = 1, now: float = 0.0) -> set[str]:
    return peers.hear(ONE, EntryBatch(first, entries), now)


class TestEntries:
    def test_what_is_booked_there_counts_here(self) -> None:
        """It counts as load and as held, from the booking on; the caller learns which models changed."""
        fleet = a_fleet(A, B)
        peers = peers_of(fleet)

        assert {"tiny"} == tell(peers, a_booked(1, letters="abc"))
        assert ((1, 0), 3, 1) == (load(fleet), hit(fleet, "abcd"), peers.booked)
        assert {"tiny"} == tell(peers, Began(1), first=2)
        assert (0, 1) == load(fleet)
        assert {"tiny"} == tell(peers, Released(1, keep=True), first=3)
        assert ((0, 0), 3, 0) == (load(fleet), hit(fleet, "abcd"), peers.booked)

    def test_what_came_to_nothing_is_not_held(self) -> None:
        """Its load is gone with it."""
        fleet = a_fleet(A)
        tell(peers_of(fleet), a_booked(1, letters="abc"), Released(1, keep=False))

        assert ((0, 0), 0) == (load(fleet), hit(fleet, "abc"))

    def test_entries_that_were_heard_before_count_once(self) -> None:
        """A message may overlap one before."""
        fleet = a_fleet(A)
        peers = peers_of(fleet)
        tell(peers, a_booked(1), a_booked(2))
        tell(peers, a_booked(1), a_booked(2), a_booked(3))

        assert (3, 0) == load(fleet)

    def test_models_and_workers_that_are_not_here_are_passed_over(self) -> None:
        """Another replica may have newer settings; what comes of them later is passed over as well."""
        fleet = a_fleet(A)
        peers = peers_of(fleet)

        assert set() == tell(peers, a_booked(1, model="other"), a_booked(2, worker=C), Began(1), Released(2, keep=True))
        assert 0 == peers.booked

    def test_a_worker_that_left_takes_what_it_had_with_it(self) -> None:
        """Its end is no news; one that came back under its name has none of it."""
        fleet = a_fleet(A, B)
        peers = peers_of(fleet)
        tell(peers, a_booked(1, letters="abc"))
        fleet.set_workers([B], 1.0)
        fleet.set_workers([A, B], 2.0)
        tell(peers, Began(1), Released(1, keep=True), first=2, now=3.0)

        assert ((0, 0), 0) == (load(fleet), hit(fleet, "abc"))


class TestGaps:
    def test_a_peer_that_begins_needs_no_snapshot(self) -> None:
        """Its first entry is its first."""
        peers = peers_of(a_fleet(A))
        tell(peers, a_booked(1))

        assert [] == peers.to_ask(0.0)

    def test_a_peer_that_was_there_before_is_asked_for_a_snapshot(self) -> None:
        """Once a second until it is there; that is no gap."""
        peers = peers_of(a_fleet(A))
        peers.hear(ONE, Beat(7), 0.0)

        assert [SnapshotRequest(ONE)] == peers.to_ask(0.0)
        assert [] == peers.to_ask(0.9)
        assert [SnapshotRequest(ONE)] == peers.to_ask(1.0)

        peers.hear(ONE, BookingSnapshot(7, (a_booked(5),)), 1.0)

        assert [] == peers.to_ask(9.0)
        assert (1, 0) == (peers.booked, peers.gaps)

    def test_missing_entries_are_noticed_by_the_next_ones(self) -> None:
        """What has come is taken in meanwhile; the snapshot settles the rest."""
        fleet = a_fleet(A)
        peers = peers_of(fleet)
        tell(peers, a_booked(1), a_booked(2))
        tell(peers, a_booked(4), first=4)

        assert (3, 1) == (peers.booked, peers.gaps)
        assert [SnapshotRequest(ONE)] == peers.to_ask(0.0)

        peers.hear(ONE, BookingSnapshot(4, (a_booked(2, begun=True), a_booked(3), a_booked(4))), 0.0)

        assert (2, 1) == load(fleet)
        assert [] == peers.to_ask(5.0)

    def test_missing_entries_are_noticed_by_a_beat(self) -> None:
        """The last ones may be lost, and nothing come after them."""
        peers = peers_of(a_fleet(A))
        tell(peers, a_booked(1))
        peers.hear(ONE, Beat(1), 0.0)

        assert [] == peers.to_ask(0.0)

        peers.hear(ONE, Beat(2), 0.0)
        peers.hear(ONE, Beat(3), 0.0)

        assert [SnapshotRequest(ONE)] == peers.to_ask(0.0)
        assert 1 == peers.gaps

    def test_a_snapshot_that_was_overtaken_is_passed_over(self) -> None:
        """The known state is newer."""
        peers = peers_of(a_fleet(A))
        tell(peers, a_booked(1), Released(1, keep=True))
        peers.hear(ONE, BookingSnapshot(1, (a_booked(1),)), 0.0)

        assert 0 == peers.booked

    def test_who_asks_is_known_from_then_on(self) -> None:
        """It is asked in turn."""
        peers = peers_of(a_fleet(A))
        peers.hear(ONE, SnapshotRequest(), 0.0)

        assert (1, [SnapshotRequest(ONE)]) == (len(peers), peers.to_ask(0.0))


class TestEnds:
    def test_the_load_of_a_dead_peer_is_gone(self) -> None:
        """It was unheard for 3 s. What it had begun to answer stays held, the rest was not computed."""
        fleet = a_fleet(A)
        peers = peers_of(fleet)
        tell(peers, a_booked(1, letters="abc"), a_booked(2, letters="xyz"), Began(1))
        peers.hear(OTHER, EntryBatch(1, (a_booked(1),)), 1.0)

        assert set() == peers.expire(3.0)
        assert {"tiny"} == peers.expire(3.5)
        assert (1, 1) == (len(peers), peers.booked)
        assert (3, 0) == (hit(fleet, "abc"), hit(fleet, "xyz"))

    def test_one_that_says_farewell_is_gone_at_once(self) -> None:
        """An unknown one has nothing to leave."""
        fleet = a_fleet(A)
        peers = peers_of(fleet)
        tell(peers, a_booked(1))

        assert {"tiny"} == peers.hear(ONE, Farewell(), 0.5)
        assert set() == peers.hear(OTHER, Farewell(), 0.5)
        assert (0, (0, 0)) == (len(peers), load(fleet))

    def test_one_that_comes_back_is_new(self) -> None:
        """It was frozen for a while: its snapshot brings what it still has."""
        fleet = a_fleet(A)
        peers = peers_of(fleet)
        tell(peers, a_booked(1))
        peers.expire(10.0)
        peers.hear(ONE, Beat(1), 11.0)
        peers.hear(ONE, BookingSnapshot(1, (a_booked(1),)), 11.0)

        assert (1, 0) == load(fleet, now=11.0)

    def test_there_is_a_limit_to_how_many_are_heard(self) -> None:
        """Anyone who is beyond it is passed over."""
        peers = peers_of(a_fleet(A))
        for number in range(MAX_PEERS + 1):
            peers.hear(number.to_bytes(16, "big"), Beat(0), 0.0)

        assert MAX_PEERS == len(peers)


class TwoInStep(RuleBasedStateMachine):
    """Whatever the first fleet does, and whatever of it is lost: once all is notified, the second has the same load."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.outbox = BookingOutbox(max_entries=20)
        self.outbox.is_heard = True
        self.first = watched(self.outbox)
        self.second = a_fleet(A, B)
        self.peers = peers_of(self.second)
        self.bookings: list[Booking] = []

    @rule(letters=st.text("ab", max_size=4), worker=st.sampled_from([A, B]))
    def book(self, letters: str, worker: WorkerId) -> None:
        request = a_request(letters)
        if any(worker == candidate.worker for candidate in self.first.candidates(request, self.now)):  # has not failed
            self.bookings.append(book(self.first, request, self.now, worker))

    @rule(at=st.integers(0, 30))
    def begin(self, at: int) -> None:
        if self.bookings:
            self.first.bookings.first_byte(self.bookings[at % len(self.bookings)], self.now)

    @rule(at=st.integers(0, 30), outcome=st.sampled_from([ANSWERED, FAILED, ABORTED]))
    def end(self, at: int, outcome: object) -> None:
        if self.bookings:
            self.first.bookings.release(self.bookings.pop(at % len(self.bookings)), outcome, self.now)  # type: ignore[arg-type]

    @rule(arrives=st.booleans())
    def send(self, *, arrives: bool) -> None:
        """One message, which may be lost."""
        batch = self.outbox.take()
        if batch is not None and arrives:
            self.peers.hear(ONE, batch, self.now)

    @rule(seconds=st.floats(0.0, 2.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.peers.hear(ONE, Beat(self.outbox.sent), self.now)

    @rule()
    def all_is_reported_in_the_end(self) -> None:
        while (batch := self.outbox.take()) is not None:
            self.peers.hear(ONE, batch, self.now)
        self.peers.hear(ONE, Beat(self.outbox.sent), self.now)
        self.now += 2.0 * ASK_EVERY_S  # so that it asks again, however short ago it has asked
        if self.peers.to_ask(self.now):
            self.peers.hear(ONE, self.outbox.snapshot(), self.now)

        assert self.oracle() == {worker: load(self.second, worker, self.now) for worker in (A, B)}
        assert len(self.bookings) == self.peers.booked

    def oracle(self) -> dict[WorkerId, tuple[int, int]]:
        """Counted from the bookings themselves."""
        began = Counter((booking.worker, booking.first_byte_at is not None) for booking in self.bookings)
        return {worker: (began[worker, False], began[worker, True]) for worker in (A, B)}

    def teardown(self) -> None:
        """The first one dies, and nothing of it stays."""
        self.all_is_reported_in_the_end()
        self.peers.expire(self.now + 200.0)

        assert {A: (0, 0), B: (0, 0)} == {worker: load(self.second, worker, self.now + 200.0) for worker in (A, B)}
        assert 0.0 == self.second.worker(A).load(self.now + 200.0).backlog_s == pytest.approx(0.0)


TwoInStep.TestCase.settings = settings(max_examples=30, stateful_step_count=30)
TestTwoInStep = TwoInStep.TestCase
