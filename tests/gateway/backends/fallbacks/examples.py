"""Fallbacks and requests to them, with values that do not matter."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from gateway.backends.backend import Backend
from gateway.backends.fallbacks.allowance import Allowance, RateLimits
from gateway.backends.fallbacks.fallback import Connections, Fallback
from gateway.backends.fallbacks.fallback_attempt import FallbackAttempt, Skipped
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.target import Target, TargetKey
from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import Answers, Fake

CHAT = "/v1/chat/completions"


def a_request(
    prompt_tokens: float = 100.0,
    max_tokens: int | None = 50,
    expected_output_tokens: float = 20.0,
    path: str = CHAT,
) -> FallbackRequest:
    return FallbackRequest(prompt_tokens, max_tokens, expected_output_tokens, "", path)


F = TypeVar("F", bound=Fake)


def named(backend: F, name: str) -> F:
    backend.id = name
    return backend


def a_target(model: str = "m", *, rates: RateLimits | None = None, place: str = "us-east-1") -> Target:
    return Target(TargetKey("bedrock", place, model), Allowance(rates or RateLimits()))


def a_fallback(
    backend: Backend | None = None,
    *,
    kind: str = "bedrock",
    target: Target | None = None,
    price: Callable[[], Price] = Price,
    paths: frozenset[str] = frozenset({CHAT}),
    context_tokens: int | None = None,
    max_output_tokens: int | None = None,
    default_max_tokens: int | None = None,
    output_weight: float = 1.0,
    connections: Connections | None = None,
    made_from: Hashable = None,
) -> Fallback:
    return Fallback(
        backend=backend or named(Answers(), "bedrock:m"),
        kind=kind,
        has_canary=kind == "bedrock",
        target=target or a_target(),
        price=price,
        paths=paths,
        context_tokens=context_tokens,
        max_output_tokens=max_output_tokens,
        default_max_tokens=default_max_tokens,
        output_weight=output_weight,
        connections=connections,
        made_from=made_from,
    )


def described(place: FallbackAttempt | Skipped) -> str:
    """The fallback's id, and why it is not asked if it is not."""
    return place.backend.id if isinstance(place, FallbackAttempt) else f"{place.backend}: {place.why}"


def an_attempt(place: FallbackAttempt | Skipped) -> FallbackAttempt:
    assert isinstance(place, FallbackAttempt), place
    return place
