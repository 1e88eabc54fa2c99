import pytest

from gateway.backends.fallbacks.allowance import RateLimits
from gateway.backends.fallbacks.fallback import Fallback
from gateway.backends.fallbacks.fallback_attempt import FallbackAttempt
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamRefused
from gateway.protocol.usage import Usage
from gateway.tenancy.ledger.price import Price
from tests.gateway.backends.fallbacks.examples import a_fallback, a_request, a_target, an_attempt

PRICE = Price(input_usd=0.001, cached_input_usd=0.0001, output_usd=0.01)
BUSY = UpstreamRefused("slow down: Throttling", status=429)


class Stage:
    """One request with a prompt of 100 tokens, at most 50 of output and 20 expected, at one fallback at 0 s."""

    def __init__(self, *, output_weight: float = 1.0) -> None:
        # The burst is 1000 tokens: what is left of it reports what is counted.
        self.target = a_target(rates=RateLimits(tokens_per_minute=6000))
        self.fallback: Fallback = a_fallback(target=self.target, price=lambda: PRICE, output_weight=output_weight)
        self.fallbacks = Fallbacks("tiny", [self.fallback])
        self.attempt: FallbackAttempt = an_attempt(next(self.fallbacks.attempts(a_request(), 0.0)))

    @property
    def tokens(self) -> float:
        """Counted against the rate."""
        wait_s = self.target.allowance.wait_s(1000.0, 0.0)
        assert wait_s is not None
        return wait_s * 5000 / 60

    @property
    def usd(self) -> tuple[float, float]:
        """Spent, and held."""
        return self.fallbacks.budget.spent_usd(0.0), self.fallbacks.budget.held_usd

    @property
    def outcomes(self) -> dict[tuple[str, str], int]:
        return {(backend, outcome): n for (backend, outcome), n in self.fallbacks.counts.requests.items()}


def test_before_the_end_the_most_that_it_may_cost_is_held() -> None:
    stage = Stage()

    assert 150.0 == pytest.approx(stage.tokens)
    assert pytest.approx((0.0, 0.6)) == stage.usd
    assert {} == stage.outcomes


def test_an_answer_is_settled_to_its_usage() -> None:
    """What came from the fallback's cache costs less, and does not count in its rate."""
    stage = Stage()
    stage.attempt.answered(Usage(prompt_tokens=110, completion_tokens=30, cached_tokens=100), 0.0)

    assert 40.0 == pytest.approx(stage.tokens)
    assert pytest.approx((0.01 + 0.01 + 0.3, 0.0)) == stage.usd
    assert {("bedrock:m", "answered"): 1} == stage.outcomes


def test_an_answer_without_usage_is_counted_as_expected() -> None:
    stage = Stage()
    stage.attempt.answered(None, 0.0)

    assert 120.0 == pytest.approx(stage.tokens)
    assert pytest.approx((0.3, 0.0)) == stage.usd


def test_output_may_weigh_more_in_the_rate() -> None:
    stage = Stage(output_weight=5.0)
    stage.attempt.answered(Usage(prompt_tokens=100, completion_tokens=30), 0.0)

    assert 250.0 == pytest.approx(stage.tokens)


@pytest.mark.parametrize("error", [ConnectFailed("refused"), BUSY])
def test_what_surely_did_nothing_costs_nothing(error: ConnectFailed | UpstreamRefused) -> None:
    stage = Stage()
    stage.attempt.failed(error, 0.0)

    assert 0.0 == pytest.approx(stage.tokens)
    assert (0.0, 0.0) == stage.usd
    assert {("bedrock:m", "failed"): 1} == stage.outcomes


def test_what_broke_off_is_paid_for_as_expected() -> None:
    stage = Stage()
    stage.attempt.failed(ReplyBroken("cut"), 0.0)

    assert pytest.approx((0.3, 0.0)) == stage.usd


def test_failures_reach_the_breaker() -> None:
    stage = Stage()
    stage.attempt.failed(BUSY, 5.0)

    assert 2.0 == stage.target.breaker.wait_s(5.0)


def test_a_caller_that_leaves_pays_for_what_was_streamed() -> None:
    stage, other = Stage(), Stage()
    stage.attempt.left(10, 0.0)
    other.attempt.left(0, 0.0)

    assert pytest.approx((0.2, 0.0)) == stage.usd
    assert pytest.approx((0.1, 0.0)) == other.usd
    assert {("bedrock:m", "left"): 1} == stage.outcomes


def test_what_was_not_asked_costs_nothing() -> None:
    stage = Stage()
    stage.attempt.unused(0.0)

    assert 0.0 == pytest.approx(stage.tokens)
    assert (0.0, 0.0) == stage.usd
    assert {("bedrock:m", "unused"): 1} == stage.outcomes


def test_only_its_first_end_counts() -> None:
    stage = Stage()
    stage.attempt.unused(1.0)
    stage.attempt.failed(BUSY, 2.0)
    stage.attempt.left(1000, 3.0)
    stage.attempt.answered(None, 4.0)
    stage.attempt.unused(5.0)
    stage.attempt.began()

    assert 1.0 == stage.attempt.ended_at
    assert (0.0, 0.0) == stage.usd
    assert {("bedrock:m", "unused"): 1} == stage.outcomes


def on_trial() -> Stage:
    """The breaker was shut at 0 s; at 600 s this is the one request that may try."""
    stage = Stage()
    stage.attempt.failed(UpstreamRefused("AccessDenied", status=502), 0.0)
    stage.attempt = an_attempt(next(stage.fallbacks.attempts(a_request(), 600.0)))
    return stage


def test_one_on_trial_opens_the_way_when_it_begins_to_be_answered() -> None:
    stage = on_trial()
    assert 30.0 == stage.target.breaker.wait_s(600.0)
    stage.attempt.began()

    assert 0.0 == stage.target.breaker.wait_s(600.0)


def test_one_on_trial_that_comes_to_nothing_leaves_the_trial_to_another() -> None:
    stage, other = on_trial(), on_trial()
    stage.attempt.left(0, 601.0)
    other.attempt.unused(601.0)

    assert (0.0, True) == (stage.target.breaker.wait_s(601.0), stage.target.breaker.is_open)
    assert (0.0, True) == (other.target.breaker.wait_s(601.0), other.target.breaker.is_open)


def test_it_says_who_answers_and_at_what_price() -> None:
    stage = Stage()

    assert stage.fallback.backend is stage.attempt.backend
    assert ("bedrock", PRICE) == (stage.attempt.kind, stage.attempt.price)
