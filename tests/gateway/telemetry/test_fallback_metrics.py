from prometheus_client import CollectorRegistry, generate_latest

from gateway.backends.fallbacks.allowance import RateLimits
from gateway.backends.fallbacks.failure_class import FailureClass
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.spill_budget import SpillLimits
from gateway.backends.fallbacks.target import CanaryResult, Target
from gateway.protocol.usage import Usage
from gateway.telemetry.fallback_metrics import FallbackMetrics
from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import Answers
from tests.gateway.backends.fallbacks.examples import a_fallback, a_request, a_target, an_attempt, named
from tests.gateway.examples import Clock


def seen(*by_model: Fallbacks, now: float = 0.0) -> list[str]:
    registry = CollectorRegistry()
    registry.register(FallbackMetrics(lambda: by_model, clock=Clock(now)))
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#") and "_created" not in line]


def some_fallbacks(*targets: Target, model: str = "tiny", price: Price | None = None) -> Fallbacks:
    said = price or Price()
    fallbacks = [a_fallback(named(Answers(), "bedrock:m"), target=target, price=lambda: said) for target in targets]
    return Fallbacks(model, fallbacks, limits=SpillLimits(usd_per_hour=10.0))


def test_models_without_fallbacks_are_not_shown() -> None:
    assert [] == seen(Fallbacks("tiny"))


def test_requests_and_their_money_are_counted_by_model() -> None:
    fallbacks = some_fallbacks(a_target(), price=Price(input_usd=0.01, output_usd=0.1))
    an_attempt(next(fallbacks.attempts(a_request(100.0, 50), 0.0))).answered(Usage(100, 5), 0.0)
    an_attempt(next(fallbacks.attempts(a_request(10.0, 1), 0.0)))
    next(fallbacks.attempts(a_request(path="/v1/embeddings"), 0.0))

    assert {
        'warmgate_fallback_requests_total{backend="bedrock:m",model="tiny",outcome="answered"} 1.0',
        'warmgate_fallback_skipped_total{backend="bedrock:m",model="tiny",reason="not_served"} 1.0',
        'warmgate_fallback_spend_usd{model="tiny"} 1.5',
        'warmgate_fallback_held_usd{model="tiny"} 0.2',
    } <= set(seen(fallbacks))


def test_targets_are_shown_once() -> None:
    """Models that share one do not show it twice; of two that have one name the worse is shown."""
    target, elsewhere = a_target(rates=RateLimits(60, None, 60.0)), a_target(place="us-west-2")
    target.checked, elsewhere.checked = CanaryResult(ok=True, at=90.0), CanaryResult(ok=False, at=40.0)
    elsewhere.breaker.failed(FailureClass("shut"), elsewhere.breaker.sent(0.0), 0.0)
    elsewhere.is_legacy = True

    assert [
        'warmgate_fallback_rate_ratio{backend="bedrock:m"} 0.1',
        'warmgate_fallback_breaker_open{backend="bedrock:m"} 1.0',
        'warmgate_fallback_canary_ok{backend="bedrock:m"} 0.0',
        'warmgate_fallback_canary_age_seconds{backend="bedrock:m"} 60.0',
        'warmgate_fallback_legacy{backend="bedrock:m"} 1.0',
    ] == [
        line
        for line in seen(some_fallbacks(target, elsewhere), some_fallbacks(target, model="big"), now=100.0)
        if "model" not in line
    ]


def test_what_was_never_tried_out_has_no_result() -> None:
    assert [
        'warmgate_fallback_spend_usd{model="tiny"} 0.0',
        'warmgate_fallback_held_usd{model="tiny"} 0.0',
        'warmgate_fallback_rate_ratio{backend="bedrock:m"} 1.0',
        'warmgate_fallback_breaker_open{backend="bedrock:m"} 0.0',
        'warmgate_fallback_legacy{backend="bedrock:m"} 0.0',
    ] == seen(some_fallbacks(a_target()))
