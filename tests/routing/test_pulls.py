"""The decision to pull, by itself and as a part of a fleet's candidates."""

import pytest

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Removed, Stored, Tier
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.fleet import Fleet
from routing.loads import Loads
from routing.pull import Pull
from routing.request import Request
from tests.routing.confirmed_examples import MODEL, an_exact_request, reporting_fleet, stored
from tests.routing.examples import A, B, C

LETTERS = "abcdefghijklmnopqrstuvwxyz" * 4
"""A prompt of 104 blocks of 16 tokens. Computing takes 1 ms per token, and a pull a quarter of this and 30 ms."""


def with_host(fleet: Fleet, confirmed: Confirmed, worker: WorkerId, letters: str, *, on_gpu: str = "") -> None:
    """*worker* holds *letters* in host memory, and only *on_gpu* on its GPU as well."""
    event = stored(letters)
    confirmed.apply(worker, event, model=MODEL)
    confirmed.apply(worker, Stored(event.hashes, None, [], 0, Tier.CPU), model=MODEL)
    if len(on_gpu) < len(letters):
        confirmed.apply(worker, Removed(event.hashes[len(on_gpu) :]), model=MODEL)
    fleet.tick(0.0)


def pulling_fleet(*workers: WorkerId) -> tuple[Fleet, Confirmed]:
    fleet, confirmed = reporting_fleet(*workers)
    fleet.set_host_tokens(dict.fromkeys(workers, 100_000))
    fleet.pulls.after_requests = 0
    for worker in workers:
        fleet.set_capacity(worker, blocks=1000, block_size=16)
    return fleet, confirmed


def asking(letters: str = LETTERS, **changes: object) -> Request:
    return an_exact_request(letters).changed(pulls=True, **changes)


def candidates(fleet: Fleet, request: Request, *, begins_session: bool = False) -> dict[WorkerId, Candidate]:
    return {each.worker: each for each in fleet.candidates(request, 0.0, begins_session=begins_session)}


def pull_of(fleet: Fleet, worker: WorkerId, request: Request | None = None) -> Pull | None:
    return candidates(fleet, asking() if request is None else request)[worker].pull


def booked(fleet: Fleet, request: Request, worker: WorkerId) -> Booking:
    booking = fleet.bookings.book(request, candidates(fleet, request)[worker], 0.0)
    assert booking is not None
    return booking


class TestPrice:
    def test_a_worker_pulls_what_it_lacks(self) -> None:
        """All of 1,664 tokens: 30 ms and a quarter of the time to compute them, with the caution of 15 %."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        of_b = candidates(fleet, asking())[B]

        assert of_b.pull is not None
        assert (A, 1664.0) == (of_b.pull.source, of_b.pull.tokens)
        assert pytest.approx(0.03 + 1664 * 0.25 / 1000) == of_b.pull.load_s
        assert (1664.0, 0, Loads(peer=1664.0)) == (of_b.hit_tokens, of_b.hit_blocks, of_b.loads)
        assert pytest.approx(of_b.pull.load_s) == of_b.load_s

    def test_the_worker_that_has_all_blocks_pulls_nothing(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)

        assert pull_of(fleet, A) is None

    def test_only_the_part_after_its_own_hit_is_pulled(self) -> None:
        """b holds the first 64 blocks on its GPU."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        confirmed.apply(B, stored(LETTERS[:64]), model=MODEL)
        of_b = candidates(fleet, asking())[B]

        assert of_b.pull is not None
        assert (640.0, 1664.0) == (of_b.pull.tokens, of_b.hit_tokens)

    def test_the_copy_evicts_as_much_as_computed_blocks(self) -> None:
        """The price of evictions does not fall by the pull, as the price of computing does."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        with_pull, without = (candidates(fleet, asking().changed(pulls=pulls))[B] for pulls in (True, False))

        assert with_pull.evicts_s == without.evicts_s
        assert (0.0, 1664.0) == (without.hit_tokens, with_pull.hit_tokens)

    def test_a_short_part_is_computed(self) -> None:
        """32 tokens take 37 ms to compute, and 44 ms to pull."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, "ab")

        assert pull_of(fleet, B, asking("ab")) is None

    def test_blocks_on_a_gpu_alone_cannot_be_pulled(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        confirmed.apply(A, stored(LETTERS), model=MODEL)

        assert pull_of(fleet, B) is None

    def test_the_last_token_is_always_computed(self) -> None:
        """A prompt that ends with its block leaves that block out."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        request = an_exact_request(LETTERS, more_tokens=0).changed(pulls=True)
        pull = candidates(fleet, request)[B].pull

        assert pull is not None
        assert 1648.0 == pull.tokens

    def test_the_worker_with_most_blocks_sends_them(self) -> None:
        fleet, confirmed = pulling_fleet(A, B, C)
        with_host(fleet, confirmed, A, LETTERS[:90])
        with_host(fleet, confirmed, B, LETTERS)

        assert [(B, 1664.0), (B, 224.0)] == [
            (pull.source, pull.tokens) for pull in (pull_of(fleet, C), pull_of(fleet, A)) if pull is not None
        ]


class TestRules:
    def test_a_request_that_may_not_pull_computes(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)

        assert pull_of(fleet, B, an_exact_request(LETTERS)) is None

    def test_the_first_request_of_a_session_computes(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)

        assert candidates(fleet, asking(), begins_session=True)[B].pull is None

    def test_the_first_requests_compute(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.pulls.after_requests = 1000
        pulls = []
        for _ in range(1001):
            pulls.append(pull_of(fleet, B) is not None)
            fleet.sessions.begins(asking().changed(session="s"))

        assert (1001, [1000]) == (len(pulls), [number for number, pull in enumerate(pulls) if pull])

    def test_no_copy_is_made_where_memory_is_short(self) -> None:
        """The copy needs 1,664 tokens."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.set_capacity(B, blocks=100, block_size=16)
        room_for = []
        for tokens in (1600, 1664):
            fleet.set_host_tokens({B: tokens})
            room_for.append(pull_of(fleet, B) is not None)

        assert [False, True] == room_for

    def test_live_sessions_need_twice_their_space(self) -> None:
        """One session of 1,665 tokens runs on b, so b needs 3,330 tokens and 1,664 for the copy."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.set_capacity(B, blocks=100, block_size=16)
        other = an_exact_request("z" * 104).changed(session="other")
        fleet.sessions.begins(other)
        booked(fleet, other, B)
        room_for = []
        for tokens in (4992, 5008):
            fleet.set_host_tokens({B: tokens})
            room_for.append(pull_of(fleet, B) is not None)

        assert [False, True] == room_for

    @pytest.mark.parametrize("change", ["down", "asleep", "untrusted"])
    def test_a_worker_that_cannot_be_relied_on_sends_nothing(self, change: str) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        match change:
            case "down":
                fleet.set_up(A, up=False)
            case "asleep":
                fleet.set_asleep(A, asleep=True)
            case _:
                fleet.set_trusted(A, trusted=False)

        assert pull_of(fleet, B) is None

    def test_a_draining_worker_still_sends(self) -> None:
        """Its sessions move without computing their prompts again."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.set_draining(A, draining=True)
        pull = pull_of(fleet, B)

        assert pull is not None
        assert A == pull.source

    def test_workers_with_blocks_of_different_sizes_do_not_pull(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        request = an_exact_request(LETTERS, block_sizes=(16, 32)).changed(pulls=True)

        assert candidates(fleet, request)[B].pull is None


class TestBookings:
    def test_a_booking_knows_its_pull(self) -> None:
        """The predicted work is the pull and the computing of one token."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        booking = booked(fleet, asking(), B)

        assert booking.pull is not None
        assert (1664.0, 1.0) == (booking.loads.peer, booking.uncached_tokens)
        assert pytest.approx(booking.pull.load_s + 0.01 + 1 / 1000) == booking.work_s

    def test_an_answer_shows_what_arrived(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.bookings.release(booked(fleet, asking(), B), Outcome(Ending.ANSWERED, 1665, 1664, 10), 1.0)

        assert (1, 1664.0) == (fleet.pulls.counts["complete"], fleet.pulls.tokens)

    def test_a_failed_request_shows_nothing(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.bookings.release(booked(fleet, asking(), B), Outcome(Ending.FAILED), 1.0)

        assert 1 == fleet.pulls.counts["unknown"]

    def test_a_pull_is_no_evidence_about_the_events(self) -> None:
        """The engine reports the pulled tokens as cached, and the events do not show them before the request."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        fleet.bookings.release(booked(fleet, asking(), B), Outcome(Ending.ANSWERED, 1665, 1664, 10), 1.0)

        assert 1.0 == fleet.worker(B).hit_accuracy.reported.value

    def test_three_pulls_that_bring_nothing_end_pulls_from_that_worker(self) -> None:
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        candidate = candidates(fleet, asking())[B]
        for _ in range(3):
            booking = fleet.bookings.book(asking(), candidate, 0.0)
            assert booking is not None
            fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1665, 0, 10), 0.0)
        fleet.caches.forget(B)
        confirmed.join(B, model=MODEL)

        assert pull_of(fleet, B) is None

    def test_the_rate_of_pulls_is_learned(self) -> None:
        """A pull of 1,664 tokens that takes half a second is far slower than believed at first."""
        fleet, confirmed = pulling_fleet(A, B)
        with_host(fleet, confirmed, A, LETTERS)
        booking = booked(fleet, asking(), B)
        assert booking.pull is not None
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1665, 1664, 10), 1.1)
        later = fleet.worker(B).speed.load_s(Loads(peer=1664.0))

        assert later > 1.2 * booking.pull.load_s
        assert {"peer"} == fleet.worker(B).speed.load_tokens_per_s().keys()
