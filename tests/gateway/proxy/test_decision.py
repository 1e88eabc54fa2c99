"""Records of routing decisions, for receipts."""

import struct

from gateway.proxy.decision import CANDIDATE, Decision
from routing.candidate import Candidate
from routing.dispatcher import Dispatch
from routing.fleet import Fleet
from tests.routing.examples import A, B, C, a_candidate, a_fleet, a_request


def decided(*order: Candidate, fleet: Fleet | None = None, reserves: int = 0) -> Decision:
    dispatch = Dispatch(a_request("abc"), list(order), None, "hit", "prefix_aware", reserves)
    return Decision(dispatch, fleet or a_fleet(), 101.0)


def ranks(decision: Decision) -> list[int]:
    return [numbers[9] for numbers in struct.iter_unpack(CANDIDATE, decision.numbers)]


def test_a_few_candidates_are_kept_in_their_order() -> None:
    decision = decided(a_candidate("b"), a_candidate("a"))

    assert ["b", "a"] == list(decision.workers)
    assert [1, 2] == ranks(decision)
    assert (2, 2, 101.0) == (decision.count, decision.ranked, decision.at)
    assert decision.excluded is None


def test_of_many_candidates_the_first_and_the_longest_hit_are_kept() -> None:
    """The tenth worker holds the prompt, and was too busy."""
    order = [a_candidate(f"w{number}") for number in range(1, 12)]
    order[9] = a_candidate("w10", hit_tokens=32.0)
    decision = decided(*order)

    assert ["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w10"] == list(decision.workers)
    assert [1, 2, 3, 4, 5, 6, 7, 10] == ranks(decision)
    assert 11 == decision.count


def test_of_many_candidates_the_first_ones_are_kept_if_the_longest_hit_is_among_them() -> None:
    order = [a_candidate(f"w{number}", hit_tokens=32.0 if number == 2 else 0.0) for number in range(1, 12)]

    decision = decided(*order)

    assert ["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"] == list(decision.workers)
    assert [1, 2, 3, 4, 5, 6, 7, 8] == ranks(decision)


def test_the_price_of_prefill_grows_with_the_busy_share_of_the_first_worker() -> None:
    """Half of the time busy: one more second per second. The price is that of the first worker."""
    busy, idle = a_candidate("a", busy_share=0.5), a_candidate("b", busy_share=0.0)

    assert 1.0 == decided(idle).price
    assert 2.0 == decided(busy).price
    assert 2.0 == decided(busy, idle, reserves=1).price
    assert 1 == decided(busy, idle, reserves=1).ranked


def test_workers_that_were_not_candidates_are_kept_with_the_reason() -> None:
    fleet = a_fleet(A, B, C)
    fleet.set_up(B, up=False)
    fleet.set_draining(C, draining=True)

    assert [("b", "down"), ("c", "draining")] == decided(a_candidate("a"), fleet=fleet).excluded
    assert [("a", "breaker open"), ("b", "down"), ("c", "draining")] == decided(fleet=fleet).excluded
