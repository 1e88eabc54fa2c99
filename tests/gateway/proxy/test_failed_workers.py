"""The workers that failed of one request."""

from cache_index import WorkerId
from gateway.proxy.failed_workers import FailedWorkers
from tests.routing.examples import a_fleet

A, B = WorkerId("a"), WorkerId("b")


def test_a_failed_worker_is_excluded_until_it_restarts() -> None:
    """It still counts as failed; the others are not affected."""
    fleet = a_fleet(A, B)
    failed = FailedWorkers(fleet)
    failed.add(A)
    before = A in failed, B in failed, len(failed)
    fleet.engine_restarted(A)

    assert (True, False, 1) == before
    assert (False, 1) == (A in failed, len(failed))


def test_a_worker_that_fails_after_a_restart_is_excluded_again() -> None:
    fleet = a_fleet(A)
    failed = FailedWorkers(fleet)
    failed.add(A)
    fleet.engine_restarted(A)
    failed.add(A)

    assert (True, 1) == (A in failed, len(failed))


def test_a_removed_worker_is_excluded_until_it_joins_again() -> None:
    """It may have been removed because it failed."""
    fleet = a_fleet()
    failed = FailedWorkers(fleet)
    failed.add(A)
    gone = A in failed
    fleet.set_workers([A], 0.0)

    assert (True, False) == (gone, A in failed)


def test_a_forgiven_worker_has_not_failed() -> None:
    failed = FailedWorkers(a_fleet(A))
    failed.add(A)
    failed.forgive(A)
    failed.forgive(B)  # who never failed may be forgiven

    assert (False, 0) == (A in failed, len(failed))
