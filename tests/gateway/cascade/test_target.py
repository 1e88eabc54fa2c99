from gateway.cascade.allowance import Rates
from gateway.cascade.target import Naming, Target, TargetKey, Targets
from gateway.cascade.verdict import Verdict

ONE = TargetKey("bedrock", "us-east-1", "one")
TWO = TargetKey("bedrock", "us-west-2", "one")


def shut(target: Target) -> None:
    target.breaker.failed(Verdict("shut"), target.breaker.sent(0.0), 0.0)


def test_who_names_the_same_gets_the_same() -> None:
    """A model in another region has another quota."""
    targets = Targets()

    assert targets.of(ONE) is targets.of(TargetKey("bedrock", "us-east-1", "one"))
    assert targets.of(ONE) is not targets.of(TWO)


def test_the_lowest_limits_that_anybody_says_are_in_force() -> None:
    targets = Targets()
    targets.attend({ONE: [Naming(Rates(requests_per_minute=60)), Naming(Rates(requests_per_minute=12))]})
    allowance = targets.of(ONE).allowance
    for _ in range(2):
        assert 0.0 == allowance.wait_s(1.0, 0.0)
        allowance.reserve(1.0, 0.0)

    assert 0.0 != allowance.wait_s(1.0, 0.0)


def test_what_is_still_named_stays_as_it_is() -> None:
    targets = Targets()
    one, two = targets.of(ONE), targets.of(TWO)
    targets.attend({ONE: [Naming()]})
    targets.attend({ONE: [Naming()], TWO: [Naming()]})

    assert one is targets.of(ONE)
    assert two is not targets.of(TWO)


def test_another_key_may_be_all_that_was_wrong() -> None:
    """So the breaker does not wait for its time to be over."""
    targets = Targets()
    targets.attend({ONE: [Naming(access="wrong")]})
    shut(targets.of(ONE))
    targets.attend({ONE: [Naming(access="wrong")]})
    assert targets.of(ONE).breaker.is_open

    targets.attend({ONE: [Naming(access="right")]})
    assert not targets.of(ONE).breaker.is_open
