"""The workers that failed of one request."""

from cache_index import WorkerId
from gateway.failed_workers import FailedWorkers
from tests.routing.examples import a_fleet

A, B = WorkerId("a"), WorkerId("b")


def test_a_worker_that_failed_is_left_alone_until_it_lives_anew() -> None:
    """It still counts among those that failed; others are as they were."""
    fleet = a_fleet(A, B)
    failed = FailedWorkers(fleet)
    failed.add(A)
    before = A in failed, B in failed, len(failed)
    fleet.restarted(A)

    assert (True, False, 1) == before
    assert (False, 1) == (A in failed, len(failed))


def test_a_worker_that_fails_in_its_next_life_is_left_alone_in_that() -> None:
    fleet = a_fleet(A)
    failed = FailedWorkers(fleet)
    failed.add(A)
    fleet.restarted(A)
    failed.add(A)

    assert (True, 1) == (A in failed, len(failed))


def test_a_worker_that_left_is_left_alone_until_it_joins_again() -> None:
    """It may have been taken away while it failed."""
    fleet = a_fleet()
    failed = FailedWorkers(fleet)
    failed.add(A)
    gone = A in failed
    fleet.set_workers([A], 0.0)

    assert (True, False) == (gone, A in failed)


def test_who_is_forgiven_has_not_failed() -> None:
    failed = FailedWorkers(a_fleet(A))
    failed.add(A)
    failed.forgive(A)
    failed.forgive(B)  # who never failed may be forgiven

    assert (False, 0) == (A in failed, len(failed))
