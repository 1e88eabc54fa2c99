from collections import Counter

import pytest

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.strategies.prefix_aware import PrefixAware, cost_s, price_of
from tests.routing.examples import ANSWERED, A, B, C, a_candidate, a_fleet, a_request, dispatch, order_of, seeded

# A prompt of 1,000 tokens, which the candidates of the tables prefill in 1.01 s, and an answer of 100.
REQUEST = a_request(prompt_tokens=1000.0)


@pytest.mark.parametrize(
    ("order", "candidates"),
    [
        # Idle: the longest hit first.
        ("cba", [a_candidate("a"), a_candidate("b", hit_tokens=100), a_candidate("c", hit_tokens=900)]),
        # No hits: the shortest backlog first.
        ("bca", [a_candidate("a", backlog_s=3.0), a_candidate("b", backlog_s=1.0), a_candidate("c", backlog_s=2.0)]),
        # A hit of 500 tokens is worth half a second of backlog, and no more.
        ("ab", [a_candidate("a", hit_tokens=500, backlog_s=0.49), a_candidate("b")]),
        ("ba", [a_candidate("a", hit_tokens=500, backlog_s=0.51), a_candidate("b")]),
        # A whole hit leaves one token to compute, so a backlog of a second outweighs it.
        ("ab", [a_candidate("a", hit_tokens=1000, backlog_s=0.99), a_candidate("b")]),
        ("ba", [a_candidate("a", hit_tokens=1000, backlog_s=1.0), a_candidate("b")]),
        # An estimate may be short of the hit: it is worth no more than the whole prompt.
        ("ba", [a_candidate("a", hit_tokens=9000, backlog_s=1.0), a_candidate("b")]),
        # Half of the time busy: a second of prefill counts twice, so the hit is worth a second.
        (
            "ab",
            [a_candidate("a", hit_tokens=500, backlog_s=0.99, busy_share=0.5), a_candidate("b", busy_share=0.5)],
        ),
        (
            "ba",
            [a_candidate("a", hit_tokens=500, backlog_s=1.01, busy_share=0.5), a_candidate("b", busy_share=0.5)],
        ),
        # It is the worker's own share that counts: the idle one computes the whole prompt sooner.
        ("ba", [a_candidate("a", hit_tokens=500, busy_share=1.0), a_candidate("b")]),
        # Saturated: five times, and no more.
        (
            "ab",
            [a_candidate("a", hit_tokens=500, backlog_s=2.49, busy_share=1.0), a_candidate("b", busy_share=1.0)],
        ),
        (
            "ba",
            [a_candidate("a", hit_tokens=500, backlog_s=2.51, busy_share=1.0), a_candidate("b", busy_share=1.0)],
        ),
        # A faster worker may be better than a warmer one: half a second against a quarter.
        ("ba", [a_candidate("a", hit_tokens=500), a_candidate("b", prefill_s_per_token=0.00025)]),
        # Else equal: fewer requests beside it, waiting or generating.
        ("cab", [a_candidate("a", decodes=2), a_candidate("b", decodes=2, pending=1), a_candidate("c", pending=1)]),
        # One more running request costs 0.5 ms * 100 tokens * 0.02 = 1 ms, as much as one token of the prompt.
        ("ab", [a_candidate("a", hit_tokens=32, decodes=31), a_candidate("b")]),
        ("ba", [a_candidate("a", hit_tokens=32, decodes=33), a_candidate("b")]),
    ],
)
def test_the_lowest_cost_comes_first(order: str, candidates: list[Candidate]) -> None:
    """A table of candidates and their order."""
    assert order == order_of(PrefixAware(seeded()), REQUEST, *candidates)


def test_the_cost_is_in_seconds() -> None:
    """2 s of backlog, 0.51 s of prefill counted twice, and 10 requests slowed by 0.5 ms a token, priced at 0.02."""
    candidate = a_candidate("a", hit_tokens=500, backlog_s=2.0, pending=4, decodes=6, busy_share=0.5)

    assert pytest.approx(2.0 + 2 * 0.51 + 10 * 0.0005 * 100 * 0.02) == cost_s(REQUEST, candidate)


def test_the_slow_down_of_decodes_scales_with_the_expected_answer() -> None:
    """A hit of 100 tokens outweighs 50 running requests for a short answer, not for a long one."""
    candidates = [a_candidate("a", hit_tokens=100, decodes=50), a_candidate("b")]

    assert "ab" == order_of(PrefixAware(seeded()), a_request(prompt_tokens=1000.0, output_tokens=100.0), *candidates)
    assert "ba" == order_of(PrefixAware(seeded()), a_request(prompt_tokens=1000.0, output_tokens=300.0), *candidates)


@pytest.mark.parametrize(
    ("busy_share", "price"), [(0.0, 1.0), (0.5, 2.0), (0.75, 4.0), (0.8, 5.0), (0.9, 5.0), (1.0, 5.0)]
)
def test_a_second_of_prefill_costs_others_more_the_busier_their_worker_is(busy_share: float, price: float) -> None:
    """1 + rho / (1 - rho), and at most 5."""
    assert pytest.approx(price) == price_of(busy_share)


def test_each_worker_has_a_price_of_its_own() -> None:
    """a computes in half of the time, but is busy for three quarters of it: a second there costs four."""
    fast, slow = a_candidate("a", busy_share=0.75, prefill_s_per_token=0.0005), a_candidate("b")

    assert "ba" == order_of(PrefixAware(seeded()), REQUEST, fast, slow)


def test_ties_are_random() -> None:
    """Each of three idle workers gets about a hundred of 300 cold requests."""
    strategy = PrefixAware(seeded())
    idle = [a_candidate("a"), a_candidate("b"), a_candidate("c")]
    first = Counter(order_of(strategy, REQUEST, *idle)[0] for _ in range(300))

    assert all(80 <= first[worker] <= 120 for worker in "abc")


def test_the_same_seed_gives_the_same_order() -> None:
    """A replay can be repeated."""
    idle = [a_candidate(worker) for worker in "abcdefgh"]

    assert order_of(PrefixAware(seeded(7)), REQUEST, *idle) == order_of(PrefixAware(seeded(7)), REQUEST, *idle)


def test_a_hot_prefix_spreads_over_an_idle_fleet() -> None:
    """Thirty identical prompts of 3,000 tokens at once: every worker computes it once and answers ten of them."""
    fleet = a_fleet(A, B, C)
    strategy = PrefixAware(seeded())
    hot = a_request("h" * 188, output_tokens=64.0)
    bookings = [dispatch(fleet, strategy, hot, 0.0) for _ in range(30)]

    assert {A: 10, B: 10, C: 10} == Counter(booking.worker for booking in bookings)
    assert {A, B, C} == {booking.worker for booking in bookings if booking.new_blocks}
    assert 3 == sum(booking.new_blocks > 0 for booking in bookings)


def test_a_conversation_stays_with_its_worker() -> None:
    """Each of ten turns hits all that was said before, while other conversations run beside it."""
    fleet = a_fleet(A, B, C)
    strategy = PrefixAware(seeded())
    homes: dict[str, WorkerId] = {}
    for turn in range(1, 11):
        for speaker in "pqr":
            booking = dispatch(fleet, strategy, a_request(speaker * 50 * turn), float(turn))
            fleet.bookings.first_byte(booking, turn + 0.1)
            fleet.bookings.release(booking, ANSWERED, turn + 0.5)

            assert 50 == booking.new_blocks
            assert homes.setdefault(speaker, booking.worker) == booking.worker


def test_on_a_busy_fleet_the_hit_wins_over_a_shorter_backlog() -> None:
    """The warm worker has half a second more to do; its hit saves as much. Only on a busy fleet is it chosen."""
    warm, cold = a_candidate("a", hit_tokens=500, backlog_s=0.6), a_candidate("b")
    busy = [c.changed(load=c.load.changed(busy_share=0.5)) for c in (warm, cold)]

    assert "ba" == order_of(PrefixAware(seeded()), REQUEST, warm, cold)
    assert "ab" == order_of(PrefixAware(seeded()), REQUEST, *busy)


@pytest.mark.parametrize(
    ("effective", "candidates"),
    [
        ("prefix_aware", [a_candidate("a", hit_tokens=500), a_candidate("b")]),
        # The hit loses, but it was weighed.
        ("prefix_aware", [a_candidate("a", hit_tokens=500, backlog_s=9.0), a_candidate("b")]),
        ("load_alone", [a_candidate("a", backlog_s=9.0), a_candidate("b")]),
        ("load_alone", [a_candidate("a", hit_tokens=500, decodes=1), a_candidate("b", hit_tokens=500)]),
        ("random", [a_candidate("a"), a_candidate("b")]),
        ("random", [a_candidate("a", hit_tokens=500), a_candidate("b", hit_tokens=500)]),
    ],
)
def test_an_explanation_says_what_decides(effective: str, candidates: list[Candidate]) -> None:
    """Hits, load alone where they are all the same, or chance."""
    assert effective == PrefixAware(seeded()).explain(REQUEST, candidates).effective


def test_an_explanation_has_the_costs_that_it_ranks_by() -> None:
    """On a fleet that is busy half of the time a second of prefill counts twice; a single candidate has a cost too."""
    strategy = PrefixAware(seeded())
    warm = a_candidate("a", hit_tokens=500, busy_share=0.5)
    cold = a_candidate("b", backlog_s=3.0, busy_share=0.5)
    both, one = strategy.explain(REQUEST, [cold, warm]), strategy.explain(REQUEST, [warm])

    assert [warm, cold] == both.order
    assert {"a": pytest.approx(1.02), "b": pytest.approx(5.02)} == both.costs_s
    assert {"a": pytest.approx(1.02)} == one.costs_s


# ---- replicas

ALIKE = Rendezvous(tie_s=0.02)


def alike(seed: int, request: Request, *candidates: Candidate) -> str:
    return order_of(PrefixAware(seeded(seed), ALIKE), request, *candidates)


def test_replicas_choose_the_same_of_workers_that_cost_the_same() -> None:
    """Whatever chance each of them has; and their explanations say so."""
    request = a_request("xyz")
    candidates = [a_candidate(name) for name in "abcd"]
    strategy = PrefixAware(seeded(9), ALIKE)

    assert 1 == len({alike(seed, request, *candidates) for seed in range(20)})
    assert strategy.rank(request, candidates) == strategy.explain(request, candidates).order


def test_what_costs_little_more_is_as_good_to_replicas() -> None:
    """Loads differ by what one of them has not heard of yet; who costs more comes behind, by cost."""
    request = a_request("xyz")
    even = alike(
        0, request, a_candidate("a"), a_candidate("b"), a_candidate("c", backlog_s=3.0), a_candidate("d", backlog_s=2.0)
    )
    uneven = alike(
        1,
        request,
        a_candidate("a", backlog_s=0.019),
        a_candidate("b"),
        a_candidate("c", backlog_s=2.0),
        a_candidate("d", backlog_s=3.0),
    )

    assert ("dc", "cd") == (even[2:], uneven[2:])
    assert even[:2] == uneven[:2]


def test_what_costs_more_than_that_decides() -> None:
    """The order of equals makes no difference."""
    request = a_request("xyz")

    assert {"ab"} == {
        alike(0, request, a_candidate("a"), a_candidate("b", backlog_s=backlog_s)) for backlog_s in (0.021, 1.0)
    }
    assert {"ba"} == {alike(0, request, a_candidate("a", backlog_s=0.021), a_candidate("b"))}


def test_among_equals_replicas_choose_who_holds_more() -> None:
    """16 tokens more make 16 ms: not worth a choice by cost, but by cache."""
    assert {"ba"} == {
        alike(seed, a_request("xyz"), a_candidate("a"), a_candidate("b", hit_tokens=16.0)) for seed in range(9)
    }


def test_a_prompt_without_blocks_goes_by_cost_and_chance() -> None:
    """Nothing of it could be known elsewhere."""
    candidates = [a_candidate("a", backlog_s=0.001), a_candidate("b"), a_candidate("c")]
    orders = {alike(seed, a_request(""), *candidates) for seed in range(40)}

    assert {"bca", "cba"} == orders


def test_one_worker_alone_is_first_of_its_equals() -> None:
    """The others cost more."""
    assert "abc" == alike(
        0, a_request("xyz"), a_candidate("c", backlog_s=2.0), a_candidate("b", backlog_s=1.0), a_candidate("a")
    )


def test_a_longer_way_is_a_price() -> None:
    """A near worker comes first where all else is equal, and no more where the other one gains more than that."""
    near, far = a_candidate("a"), a_candidate("b").changed(zone_penalty_s=0.002)
    gaining = a_candidate("b", hit_tokens=16.0).changed(zone_penalty_s=0.002)

    assert {"ab"} == {order_of(PrefixAware(seeded(seed)), REQUEST, far, near) for seed in range(9)}
    assert "ba" == order_of(PrefixAware(seeded()), REQUEST, near, gaining)
    assert 0.002 == pytest.approx(cost_s(REQUEST, far) - cost_s(REQUEST, near))


def test_what_has_to_leave_a_cache_is_work_as_well() -> None:
    """It will be computed again, and costs those who come after as much as other work."""
    full, other = a_candidate("a").changed(evicts_s=0.5), a_candidate("b", backlog_s=0.4)
    busy = a_candidate("a", busy_share=0.5)

    assert "ba" == order_of(PrefixAware(seeded()), REQUEST, full, other)
    assert 1.0 == pytest.approx(cost_s(REQUEST, busy.changed(evicts_s=0.5)) - cost_s(REQUEST, busy))


def test_what_a_session_displaces_is_paid_once() -> None:
    """A worker without live sessions comes first, even with a short backlog. The price of prefill changes nothing."""
    crowded, other = a_candidate("a").changed(displaces_s=0.5), a_candidate("b", backlog_s=0.4)
    busy = a_candidate("a", busy_share=0.5)

    assert "ba" == order_of(PrefixAware(seeded()), REQUEST, crowded, other)
    assert 0.5 == pytest.approx(cost_s(REQUEST, busy.changed(displaces_s=0.5)) - cost_s(REQUEST, busy))
