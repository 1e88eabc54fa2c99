from prometheus_client import CollectorRegistry, generate_latest

from gateway.cascade.allowance import Rates
from gateway.cascade.cascade import Cascade
from gateway.cascade.spill_budget import SpillLimits
from gateway.cascade.target import Checked, Target
from gateway.cascade.verdict import Verdict
from gateway.cascade_metrics import CascadeMetrics
from gateway.ledger.price import Price
from gateway.usage import Usage
from tests.fakes.backends import Answers
from tests.gateway.cascade.examples import a_fallback, a_need, a_passage, a_target, named
from tests.gateway.examples import Clock


def seen(*cascades: Cascade, now: float = 0.0) -> list[str]:
    registry = CollectorRegistry()
    registry.register(CascadeMetrics(lambda: cascades, clock=Clock(now)))
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#") and "_created" not in line]


def a_cascade(*targets: Target, model: str = "tiny", price: Price | None = None) -> Cascade:
    said = price or Price()
    fallbacks = [a_fallback(named(Answers(), "bedrock:m"), target=target, price=lambda: said) for target in targets]
    return Cascade(model, fallbacks, limits=SpillLimits(usd_per_hour=10.0))


def test_models_without_fallbacks_are_not_shown() -> None:
    assert [] == seen(Cascade("tiny"))


def test_requests_and_their_money_are_counted_by_model() -> None:
    cascade = a_cascade(a_target(), price=Price(input_usd=0.01, output_usd=0.1))
    a_passage(next(cascade.passages(a_need(100.0, 50), 0.0))).answered(Usage(100, 5), 0.0)
    a_passage(next(cascade.passages(a_need(10.0, 1), 0.0)))
    next(cascade.passages(a_need(path="/v1/embeddings"), 0.0))

    assert {
        'warmgate_fallback_requests_total{backend="bedrock:m",model="tiny",outcome="answered"} 1.0',
        'warmgate_fallback_turned_total{backend="bedrock:m",model="tiny",why="not served"} 1.0',
        'warmgate_fallback_spend_usd{model="tiny"} 1.5',
        'warmgate_fallback_held_usd{model="tiny"} 0.2',
    } <= set(seen(cascade))


def test_targets_are_shown_once() -> None:
    """Models that share one do not show it twice; of two that have one name the worse is shown."""
    target, elsewhere = a_target(rates=Rates(60, None, 60.0)), a_target(place="us-west-2")
    target.checked, elsewhere.checked = Checked(ok=True, at=90.0), Checked(ok=False, at=40.0)
    elsewhere.breaker.failed(Verdict("shut"), elsewhere.breaker.sent(0.0), 0.0)
    elsewhere.is_legacy = True

    assert [
        'warmgate_fallback_rate{backend="bedrock:m"} 0.1',
        'warmgate_fallback_breaker_open{backend="bedrock:m"} 1.0',
        'warmgate_fallback_canary_ok{backend="bedrock:m"} 0.0',
        'warmgate_fallback_canary_age_seconds{backend="bedrock:m"} 60.0',
        'warmgate_fallback_legacy{backend="bedrock:m"} 1.0',
    ] == [
        line
        for line in seen(a_cascade(target, elsewhere), a_cascade(target, model="big"), now=100.0)
        if "model" not in line
    ]


def test_what_was_never_tried_out_has_no_result() -> None:
    assert [
        'warmgate_fallback_spend_usd{model="tiny"} 0.0',
        'warmgate_fallback_held_usd{model="tiny"} 0.0',
        'warmgate_fallback_rate{backend="bedrock:m"} 1.0',
        'warmgate_fallback_breaker_open{backend="bedrock:m"} 0.0',
        'warmgate_fallback_legacy{backend="bedrock:m"} 0.0',
    ] == seen(a_cascade(a_target()))
