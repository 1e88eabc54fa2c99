import pytest

from benchmarks.policies.events import EventsAndInFlight
from benchmarks.policies.late_binding import LateBinding
from replay.policy import Ask, Usage
from tests.benchmarks.policies.examples import a_setup, an_ask


def a_policy(workers: int) -> LateBinding:
    return LateBinding(a_setup(workers), EventsAndInFlight(workers))


def submitted(policy: LateBinding, ask: Ask) -> list[tuple[Ask, int]]:
    policy.submit(ask, ask.arrival)
    return policy.poll(ask.arrival)


def warm() -> LateBinding:
    """The first of two workers holds ten blocks, and has 0.31 s of prefill to do."""
    policy = a_policy(2)
    policy.stored(0, range(10), None, 0.0)
    ask = an_ask(*range(13))

    assert [(ask, 0)] == submitted(policy, ask)
    return policy


def test_an_idle_worker_gets_its_request_at_once() -> None:
    policy, ask = a_policy(1), an_ask(1)

    assert [(ask, 0)] == submitted(policy, ask)
    assert policy.next_poll_at(0.0) is None


def test_a_request_waits_until_its_worker_is_nearly_free() -> None:
    """0.5 s of backlog fall to 0.05 s in 0.45 s, by themselves."""
    policy, ask = a_policy(1), an_ask(2, arrival=0.1)
    submitted(policy, an_ask(1, tokens=500))

    assert [] == submitted(policy, ask)
    assert 0.45 == pytest.approx(policy.next_poll_at(0.1))
    assert [] == policy.poll(0.44)
    assert [(ask, 0)] == policy.poll(policy.next_poll_at(0.1) or 0.0)


def test_only_a_first_token_ends_a_turn_that_takes_longer_than_believed() -> None:
    """Two prompts of 0.5 s and 0.11 s are at the worker: time alone leaves 0.11 s, 0.06 s more than the depth."""
    policy, first, third = a_policy(1), an_ask(1, tokens=500), an_ask(3)
    submitted(policy, first)
    policy.submit(an_ask(2), 0.45)
    policy.poll(0.45)
    policy.submit(third, 0.45)

    assert [] == policy.poll(9.0)
    assert policy.next_poll_at(9.0) is None
    policy.first_token(first, 9.0)
    policy.finished(first, Usage(0, 1), 9.0)
    assert 9.06 == pytest.approx(policy.next_poll_at(9.0))
    assert [(third, 0)] == policy.poll(9.06)


def test_a_request_waits_for_its_home_though_another_worker_idles() -> None:
    """0.31 s of backlog are less than three times the 1 s that the other would have to compute."""
    policy, ask = warm(), an_ask(*range(10))

    assert [] == submitted(policy, ask)
    assert 0.26 == pytest.approx(policy.next_poll_at(0.0))
    assert [(ask, 0)] == policy.poll(0.27)


def test_a_home_that_is_busier_than_its_cache_is_worth_is_not_one() -> None:
    """One block of two: 0.31 s + 3 * 0.11 s against 3 * 0.21 s."""
    policy, ask = warm(), an_ask(0, 50)

    assert [(ask, 1)] == submitted(policy, ask)


def test_an_eviction_moves_the_home() -> None:
    """What waited for the cache has nothing to wait for any more."""
    policy, ask = warm(), an_ask(20, 21, 22)
    policy.stored(0, [20, 21, 22], None, 0.0)

    assert [] == submitted(policy, ask)
    policy.removed(0, [20, 21, 22], 0.1)
    assert [(ask, 1)] == policy.poll(0.1)


@pytest.mark.parametrize(("short_at", "is_short_first"), [(0.5, True), (1.0, False)])
def test_the_shortest_goes_first_until_another_has_waited_long(short_at: float, is_short_first: bool) -> None:
    """0.2 s less of work make up for 0.67 s of waiting: the long one came at 0.0."""
    policy, long, short = a_policy(1), an_ask(1, 2, 3), an_ask(4, arrival=short_at)
    submitted(policy, an_ask(5, tokens=2000))
    policy.submit(long, 0.0)
    policy.submit(short, short_at)

    assert [(short if is_short_first else long, 0)] == policy.poll(1.96)


def test_short_is_what_is_short_to_compute() -> None:
    """A prompt of ten blocks that are there goes before one of two that are not."""
    policy, cached, new = a_policy(1), an_ask(*range(10)), an_ask(20, 21)
    policy.stored(0, range(10), None, 0.0)
    submitted(policy, an_ask(30, tokens=500))
    policy.submit(new, 0.0)
    policy.submit(cached, 0.0)

    assert [(cached, 0)] == policy.poll(0.455)
