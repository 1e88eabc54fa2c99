"""Fallbacks, needs and cascades with values that do not matter."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from gateway.backends.backend import Backend
from gateway.cascade.allowance import Allowance, Rates
from gateway.cascade.fallback import Connections, Fallback
from gateway.cascade.need import Need
from gateway.cascade.passage import Passage, Turned
from gateway.cascade.target import Kind, Target, TargetKey
from gateway.ledger.price import Price
from tests.fakes.backends import Answers, Fake

CHAT = "/v1/chat/completions"


def a_need(
    prompt_tokens: float = 100.0,
    max_tokens: int | None = 50,
    expected_output_tokens: float = 20.0,
    path: str = CHAT,
) -> Need:
    return Need(prompt_tokens, max_tokens, expected_output_tokens, "", path)


F = TypeVar("F", bound=Fake)


def named(backend: F, name: str) -> F:
    backend.id = name
    return backend


def a_target(model: str = "m", *, rates: Rates | None = None, place: str = "us-east-1") -> Target:
    return Target(TargetKey("bedrock", place, model), Allowance(rates or Rates()))


def a_fallback(
    backend: Backend | None = None,
    *,
    kind: Kind = "bedrock",
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


def told(place: Passage | Turned) -> str:
    """The fallback's id, and why it is not asked if it is not."""
    return place.backend.id if isinstance(place, Passage) else f"{place.backend}: {place.why}"


def a_passage(place: Passage | Turned) -> Passage:
    assert isinstance(place, Passage), place
    return place
