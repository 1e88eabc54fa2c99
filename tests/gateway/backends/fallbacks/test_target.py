from gateway.backends.fallbacks.allowance import RateLimits
from gateway.backends.fallbacks.failure_class import FailureClass
from gateway.backends.fallbacks.target import Target, TargetKey, Targets, TargetSettings

ONE = TargetKey("bedrock", "us-east-1", "one")
TWO = TargetKey("bedrock", "us-west-2", "one")


def shut(target: Target) -> None:
    target.breaker.failed(FailureClass("shut"), target.breaker.sent(0.0), 0.0)


def test_who_names_the_same_gets_the_same() -> None:
    """A model in another region has another quota."""
    targets = Targets()

    assert targets.find(ONE) is targets.find(TargetKey("bedrock", "us-east-1", "one"))
    assert targets.find(ONE) is not targets.find(TWO)


def test_the_lowest_limits_that_anybody_says_are_in_force() -> None:
    targets = Targets()
    targets.attend(
        {ONE: [TargetSettings(RateLimits(requests_per_minute=60)), TargetSettings(RateLimits(requests_per_minute=12))]}
    )
    allowance = targets.find(ONE).allowance
    for _ in range(2):
        assert 0.0 == allowance.wait_s(1.0, 0.0)
        allowance.reserve(1.0, 0.0)

    assert 0.0 != allowance.wait_s(1.0, 0.0)


def test_what_is_still_named_stays_as_it_is() -> None:
    targets = Targets()
    one, two = targets.find(ONE), targets.find(TWO)
    targets.attend({ONE: [TargetSettings()]})
    targets.attend({ONE: [TargetSettings()], TWO: [TargetSettings()]})

    assert one is targets.find(ONE)
    assert two is not targets.find(TWO)


def test_another_key_may_be_all_that_was_wrong() -> None:
    targets = Targets()
    targets.attend({ONE: [TargetSettings(access="wrong")]})
    shut(targets.find(ONE))
    targets.attend({ONE: [TargetSettings(access="wrong")]})
    assert targets.find(ONE).breaker.is_open

    targets.attend({ONE: [TargetSettings(access="right")]})
    assert not targets.find(ONE).breaker.is_open
