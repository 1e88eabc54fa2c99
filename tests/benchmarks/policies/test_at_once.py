from benchmarks.policies.at_once import AtOnce
from benchmarks.policies.events import Events
from benchmarks.policies.least_requests import LeastRequests
from benchmarks.policies.round_robin import RoundRobin
from replay.policy import Usage
from tests.benchmarks.policies.examples import a_setup, an_ask


def test_every_request_is_released_once_and_at_once() -> None:
    """In the order in which they came."""
    policy = AtOnce(a_setup(), Events(2), RoundRobin())
    first, second, third = (an_ask(number) for number in range(3))
    for ask in (first, second, third):
        policy.submit(ask, 0.0)

    assert policy.next_poll_at(0.0) is None
    assert [(first, 0), (second, 1), (third, 0)] == policy.poll(0.0)
    assert [] == policy.poll(0.0)


def test_a_rule_sees_what_was_sent_before_and_what_has_ended() -> None:
    """Each of two goes where there is not one, and the third where the first has ended."""
    setup = a_setup()
    policy = AtOnce(setup, Events(2), LeastRequests(setup.rng))
    first, second, third = (an_ask(number) for number in range(3))
    policy.submit(first, 0.0)
    policy.submit(second, 0.0)
    (_, one), (_, other) = policy.poll(0.0)
    policy.first_token(first, 1.0)
    policy.finished(first, Usage(0, 1), 1.0)
    policy.submit(third, 1.0)

    assert {0, 1} == {one, other}
    assert [(third, one)] == policy.poll(1.0)
