from tests.routing.confirmed_examples import MODEL, an_exact_request, reporting_fleet, stored
from tests.routing.examples import (
    FAILED,
    A,
    B,
    C,
    a_fleet,
    a_request,
    book,
)
from tests.routing.fleet_examples import fail, names, worker_of


class TestLives:
    def test_a_worker_that_comes_up_again_has_another_incarnation(self) -> None:
        """This includes workers that restarted unseen or woke; others keep theirs."""
        fleet = a_fleet(A, B)
        lives = [fleet.members.incarnation(A)]
        fleet.set_up(A, up=False)
        lives.append(fleet.members.incarnation(A))
        fleet.set_up(A, up=True)
        lives.append(fleet.members.incarnation(A))
        fleet.engine_restarted(A)
        lives.append(fleet.members.incarnation(A))
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)
        lives.append(fleet.members.incarnation(A))

        assert [0, 0, 1, 2, 3] == lives
        assert 0 == fleet.members.incarnation(B)

    def test_what_is_said_twice_begins_no_life(self) -> None:
        """It was up all the while."""
        fleet = a_fleet(A)
        fleet.set_up(A, up=True)
        fleet.set_asleep(A, asleep=False)

        assert 0 == fleet.members.incarnation(A)

    def test_who_is_not_there_has_none(self) -> None:
        """It has left, or never came."""
        fleet = a_fleet(A)
        fleet.set_workers([B], 1.0)

        assert [-1, -1] == [fleet.members.incarnation(A), fleet.members.incarnation(C)]

    def test_who_joins_again_has_a_life_that_it_never_had(self) -> None:
        """A restarted worker may be tried again."""
        fleet = a_fleet(A, B)
        fleet.engine_restarted(A)
        before = fleet.members.incarnation(A)
        fleet.set_workers([B], 1.0)
        fleet.set_workers([A, B], 2.0)

        assert fleet.members.incarnation(A) > before

    def test_failures_of_an_earlier_life_are_not_held_against_a_worker(self) -> None:
        """Five requests that it never answered come to their end when it is up again."""
        fleet = a_fleet(A, B)
        lost = [book(fleet, a_request(), 0.0, A) for _ in range(5)]
        fleet.set_up(A, up=False)
        fleet.set_up(A, up=True)
        for booking in lost:
            fleet.bookings.release(booking, FAILED, 1.0)

        assert not worker_of(fleet, A).breaker.is_open

    def test_a_restart_closes_the_breaker(self) -> None:
        """Another engine runs there."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        assert "b" == names(fleet)
        fleet.engine_restarted(A)

        assert "ab" == names(fleet)


class TestWays:
    def test_what_a_worker_costs_more_is_said_of_its_candidates(self) -> None:
        """It also applies to workers that join later; for others it is 0, and it can change."""
        fleet = a_fleet(A, B)
        fleet.members.set_zone_penalties({B: 0.002, C: 0.003})
        fleet.set_workers([A, B, C], 1.0)

        assert [0.0, 0.002, 0.003] == [candidate.zone_penalty_s for candidate in fleet.candidates(a_request("x"), 1.0)]

        fleet.members.set_zone_penalties({})

        assert [0.0] * 3 == [candidate.zone_penalty_s for candidate in fleet.candidates(a_request("x"), 1.0)]

    def test_it_is_said_of_what_engines_report_as_well(self) -> None:
        """It counts for reported and predicted hits."""
        fleet, confirmed = reporting_fleet(A, B)
        confirmed.apply(A, stored("abc"), model=MODEL)
        fleet.members.set_zone_penalties({A: 0.002})

        candidates = fleet.candidates(an_exact_request("abc"), 1.0)

        assert [("reported", 0.002), ("reported", 0.0)] == [(each.source, each.zone_penalty_s) for each in candidates]
