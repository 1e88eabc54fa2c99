from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry

from gateway.backends.backend import Call
from gateway.picker.delivery import EnvoyDelivery
from gateway.picker.destinations import Destinations
from gateway.picker.reply import EnvoyReply
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError, GuardrailUnavailable
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.filter import Direction
from gateway.proxy.guardrails.guard import Guard, GuardrailRule
from gateway.proxy.guardrails.guards import GuardedModels, ModelGuards
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from tests.gateway.examples import Clock
from tests.gateway.proxy.guardrails.examples import CHAT, a_filter, a_rule

RULES: dict[str, GuardrailRule] = {name: a_rule(a_filter(name)) for name in ("first", "second", "third")}
EXCHANGE = Exchange(b"id", CHAT.path, 0.0)


class NoWire:
    """Connection to Envoy that is never used."""

    async def forward(self, call: Call, destination: str, scores: Mapping[str, float]) -> None: ...

    async def begin_to(self, call: Call, destination: str) -> None: ...

    async def complete(self, call: Call) -> None: ...

    async def reply(self) -> tuple[EnvoyReply, str | None]:
        raise AssertionError


def guards(*names: str) -> ModelGuards:
    return ModelGuards(RULES, names, model="tiny", counters=GuardrailCounters())


def caller(*names: str) -> Caller:
    return Caller(Team(name="blue", guardrails=names), Key(id="k", team="blue", digest="d"))


def names_of(guard: Guard | None) -> list[str]:
    assert guard is not None
    return [rule.filter.name for rule in guard._chain.rules]


def test_guardrails_of_model_and_team_look_in_the_order_of_the_settings() -> None:
    made = guards("third", "first").guard_for(caller("second"), EXCHANGE, CHAT)
    assert ["first", "second", "third"] == names_of(made)
    assert ["third"] == names_of(guards("third").guard_for(None, EXCHANGE, CHAT))


def test_who_has_none_has_no_guard() -> None:
    assert guards().guard_for(caller(), EXCHANGE, CHAT) is None
    assert guards().guard_for(None, EXCHANGE, CHAT) is None


def test_a_guardrail_that_is_not_known_lets_nothing_pass() -> None:
    """A team in the store may name one that the settings had once."""
    with pytest.raises(GuardrailUnavailable, match="'gone'"):
        guards().guard_for(caller("gone"), EXCHANGE, CHAT)


@pytest.mark.parametrize(
    ("path", "directions", "is_refused"),
    [
        ("/v1/chat/completions", {"request", "response"}, True),
        ("/v1/chat/completions", {"request"}, False),
        ("/v1/embeddings", {"request", "response"}, False),
    ],
)
def test_an_answer_that_cannot_be_checked_is_refused(
    path: str, directions: frozenset[Direction], is_refused: bool
) -> None:
    """The server in front of the gateway passes on the answer without the gateway."""
    rule = a_rule(a_filter("first"), directions=frozenset(directions))
    made = ModelGuards({"first": rule}, ["first"], model="tiny", counters=GuardrailCounters())
    exchange = Exchange(b"id", path, 0.0)
    exchange.delivery = EnvoyDelivery(
        NoWire(), Destinations(Clock()), subset=None, max_fallbacks=0, shows_answers=False
    )
    if not is_refused:
        assert ["first"] == names_of(made.guard_for(None, exchange, ENDPOINTS[path]))
        return
    with pytest.raises(GatewayError, match="does not pass through the gateway"):
        made.guard_for(None, exchange, ENDPOINTS[path])


def test_what_is_in_force_can_be_replaced() -> None:
    guarded = GuardedModels()
    assert guarded.guard("tiny", None, EXCHANGE, CHAT) is None

    guarded.use({"tiny": guards("first")})
    assert ["first"] == names_of(guarded.guard("tiny", None, EXCHANGE, CHAT))
    assert guarded.guard("other", None, EXCHANGE, CHAT) is None
    guarded.use(None)
    assert guarded.by_model is None


def test_where_no_guardrail_is_configured_a_team_that_names_one_is_refused() -> None:
    """It is counted and logged; teams without one are not looked at."""
    counters = GuardrailCounters()
    guarded = GuardedModels(counters)
    for _ in range(2):
        with pytest.raises(GuardrailUnavailable, match=r"'gone' of your team is not configured"):
            guarded.guard("tiny", caller("gone"), EXCHANGE, CHAT)
    registry = CollectorRegistry()
    registry.register(counters)

    assert [True, False, False] == [guarded.looks_at(each) for each in (caller("gone"), caller(), None)]
    assert 2.0 == registry.get_sample_value("warmgate_guardrail_missing_total", {"team": "blue"})


def test_a_missing_guardrail_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    guarded = guards("first")
    for _ in range(2):
        with pytest.raises(GuardrailUnavailable):
            guarded.guard_for(caller("gone"), EXCHANGE, CHAT)

    assert ["requests of team 'blue' are refused, because its guardrail 'gone' is not configured"] == [
        record.getMessage() for record in caplog.records
    ]


def test_a_model_without_guards_refuses_a_team_that_names_one() -> None:
    guarded = GuardedModels()
    guarded.use({"tiny": guards()})

    with pytest.raises(GuardrailUnavailable):
        guarded.guard("other", caller("first"), EXCHANGE, CHAT)
