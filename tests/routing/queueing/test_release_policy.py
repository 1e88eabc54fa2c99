"""The depth at which a worker is about to be free."""

from routing.queueing.late_binding import LateBinding
from routing.queueing.release_policy import ReleasePolicy
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.routing.examples import A, a_fleet, a_request, book, seeded

STRATEGIES_BY_NAME = StrategiesByName("kv_aware", lambda name: STRATEGIES[name](seeded()))


def test_a_worker_counts_as_free_at_the_depth_that_is_wanted() -> None:
    """Four letters are 74 ms of prefill: more than 50 ms, less than 100."""
    held = {}
    for depth_s in (0.05, 0.1):
        fleet = a_fleet(A)
        book(fleet, a_request("wxyz"), 0.0)
        dispatcher = LateBinding(fleet, STRATEGIES_BY_NAME, seeded(), ReleasePolicy(depth_s=depth_s))
        dispatcher.submit(a_request("abcd"), 0.0)
        dispatcher.poll(0.0)
        held[depth_s] = dispatcher.waiting

    assert {0.05: 1, 0.1: 0} == held
