"""The model of a request whose name stands for several."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from cache_index import WorkerId
from gateway.models.model_names import ModelNames
from gateway.models.registry import Models
from gateway.models.response_affinity.owners import ResponseOwner
from gateway.models.route_chooser import RouteChooser, RouteQuery
from gateway.models.routes.route import Route, RouteChoice
from gateway.models.routes.routes import RouteTable
from gateway.models.routes.rule import RouteRule
from gateway.protocol.body import parse_chat
from gateway.protocol.endpoints.responses import parse_responses
from gateway.protocol.errors import Forbidden, UnknownModel
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.permits import Permits
from gateway.tenancy.teams.team import Team
from routing.variants import Variants
from tests.fakes.backends import Fake
from tests.gateway.examples import a_model

NAMES = ("a", "b", "large")


def a_route(*, rules: tuple[RouteRule, ...] = (), **more: Any) -> Route:
    variants = more.pop("variants", None) or Variants({"a": 1.0, "b": 1.0}, key="chat")
    return Route("chat", first="a", variants=variants, rules=rules, **more)


def models_with(route: Route, *, down: tuple[str, ...] = ()) -> Models:
    """The models a, b and large with a worker each, and *route*, which is also called gpt-4."""
    models = {name: a_model(Fake(), name=name) for name in NAMES}
    for name in down:
        for worker in models[name].workers:
            models[name].fleet.set_up(worker, up=False)
    served = Models()
    names = ModelNames([*((name, ()) for name in NAMES), ("chat", ["gpt-4"])])
    served.replace(models, names, RouteTable([route]))
    return served


def asking(model: str = "chat", text: str = "hello", *, header: str | None = None, **more: Any) -> RouteQuery:
    known = {name: more.pop(name) for name in ("key", "team", "user", "permits") if name in more}
    raw = json.dumps({"model": model, "messages": [{"role": "user", "content": text}], **more}).encode()
    return RouteQuery("/v1/chat/completions", raw, parse_chat(raw), lambda _: header, **known)


def chooser(models: Models, owner: ResponseOwner | None = None) -> RouteChooser:
    return RouteChooser(models, lambda _: owner)


async def chosen(models: Models, ask: RouteQuery, *, owner: ResponseOwner | None = None) -> tuple[str, str | None]:
    """The model's name, and the rule."""
    model, choice = await chooser(models, owner).model(ask)
    assert choice is None or choice.model == model.name
    return model.name, None if choice is None else choice.rule


def permits(*names: str) -> Permits:
    return Permits(Team("team"), Key(id="key", team="team", digest="", models=names))


async def test_a_name_of_one_model_is_that_model() -> None:
    """Nothing is counted, for nothing was chosen."""
    models = models_with(a_route())

    assert ("large", None) == await chosen(models, asking("large"))
    assert models.routes is not None
    assert not models.routes.counters


async def test_a_name_of_nothing_is_unknown() -> None:
    with pytest.raises(UnknownModel):
        await chosen(models_with(a_route()), asking("nobody"))


async def test_requests_are_dealt_and_counted() -> None:
    """Under its other names as well."""
    models = models_with(a_route(variants=Variants({"a": 3.0, "b": 1.0}, key="x")))
    got = Counter([(await chosen(models, asking("chat" if i % 2 else "gpt-4")))[0] for i in range(100)])

    assert got["a"] == pytest.approx(75, abs=2)
    assert models.routes is not None
    assert {RouteChoice("chat", name, "weight"): count for name, count in got.items()} == models.routes.counters


async def test_who_peeks_changes_nothing() -> None:
    models = models_with(a_route())
    peeking = chooser(models)
    seen = [(await peeking.model(asking(), peeks=True))[0].name for _ in range(5)]

    assert [(await chosen(models, asking()))[0]] * 5 == seen
    assert models.routes is not None
    assert 1 == models.routes.counters.total()


@pytest.mark.parametrize(
    ("sticky", "known"),
    [
        ("key", lambda who: {"key": who}),
        ("user", lambda who: {"user": who}),
        ("session", lambda who: {"header": who}),
    ],
)
async def test_who_is_known_keeps_its_variant(sticky: str, known: Any) -> None:
    """The same for all kinds of callers; and among many callers both variants are found."""
    models = models_with(a_route(sticky=sticky))
    first = [(await chosen(models, asking(**known(f"w{i}"))))[0] for i in range(20)]
    again = [(await chosen(models, asking(**known(f"w{i}"))))[0] for i in range(20)]

    assert first == again
    assert {"a", "b"} == set(first)
    assert [Variants({"a": 1.0, "b": 1.0}, key="chat").order(f"w{i}")[0] for i in range(20)] == first


async def test_what_the_body_says_of_user_and_session_counts_where_no_header_does() -> None:
    by_user, by_session = models_with(a_route(sticky="user")), models_with(a_route(sticky="session"))
    variants = Variants({"a": 1.0, "b": 1.0}, key="chat")
    for i in range(10):
        who = f"w{i}"
        assert variants.order(who)[0] == (await chosen(by_user, asking(safety_identifier=who)))[0]
        assert variants.order(who)[0] == (await chosen(by_session, asking(prompt_cache_key=who)))[0]


async def test_the_headers_of_agents_name_the_session_of_a_sticky_route() -> None:
    models, variants = models_with(a_route(sticky="session")), Variants({"a": 1.0, "b": 1.0}, key="chat")
    for i in range(10):
        query = msgspec.structs.replace(asking(user="u"), header={b"session-id": f"w{i}"}.get)
        assert variants.order(f"w{i}")[0] == (await chosen(models, query))[0]


@pytest.mark.parametrize("sticky", ["key", "user", "session"])
async def test_who_is_not_known_is_dealt_one(sticky: str) -> None:
    models = models_with(a_route(sticky=sticky))
    got = Counter([(await chosen(models, asking()))[0] for _ in range(40)])

    assert got["a"] == pytest.approx(20, abs=2)


async def test_the_next_variant_takes_over_from_one_that_is_down() -> None:
    """Also from that of a caller who keeps it."""
    models = models_with(a_route(sticky="key"), down=("a",))

    assert {("b", "weight")} == {await chosen(models, asking(key=f"k{i}")) for i in range(10)}


async def test_a_request_may_have_to_wait_for_its_variant() -> None:
    models = models_with(a_route(passes_on=False, variants=Variants({"a": 1.0}, key="x")), down=("a",))

    assert ("a", "weight") == await chosen(models, asking())


async def test_where_all_are_down_it_is_the_first() -> None:
    """The model says so, or waits for a worker."""
    models = models_with(a_route(variants=Variants({"b": 1.0}, key="x")), down=("a", "b"))

    assert ("b", "weight") == await chosen(models, asking())


async def test_the_first_rule_that_is_true_decides() -> None:
    """Even for a model that is down: the others are not what the request needs."""
    rules = (
        RouteRule("long", "large", prompt_tokens_from=100),
        RouteRule("tools", "b", asks=frozenset({"tools"})),
        RouteRule("mine", "a", teams=frozenset({"me"})),
    )
    models = models_with(a_route(rules=rules, variants=Variants({"b": 1.0}, key="x")), down=("large",))

    assert ("large", "long") == await chosen(models, asking(text="word " * 200, tools=[{}]))
    assert ("b", "tools") == await chosen(models, asking(tools=[{}], team="me"))
    assert ("a", "mine") == await chosen(models, asking(team="me"))
    assert ("b", "weight") == await chosen(models, asking())


async def test_tokens_are_counted_by_what_the_first_model_has_learned() -> None:
    """At two bytes a token the same text is twice as long."""
    models = models_with(a_route(rules=(RouteRule("long", "large", prompt_tokens_from=300),)))
    text = "x" * 1000
    before = await chosen(models, asking(text=text))
    first = models.get("a")
    assert first is not None
    for _ in range(200):
        first.fleet.bytes_per_token.learn(2000, 1000)

    assert ("weight", ("large", "long")) == (before[1], await chosen(models, asking(text=text)))


async def test_a_conversation_goes_on_where_it_is_kept() -> None:
    """Whatever weights and rules say; a response of a model that the route does not lead to is no reason."""
    raw = b'{"model":"chat","input":"and then?","previous_response_id":"resp_1"}'
    ask = RouteQuery("/v1/responses", raw, parse_responses(raw), lambda _: None)
    models = models_with(a_route(rules=(RouteRule("any", "large", prompt_tokens_below=10_000),)))

    assert ("b", "response") == await chosen(models, ask, owner=ResponseOwner("b", WorkerId("a"), None))
    assert ("large", "any") == await chosen(models, ask, owner=ResponseOwner("other", WorkerId("a"), None))
    assert ("large", "any") == await chosen(models, ask)


async def test_permission_for_the_route_is_enough_unless_it_wants_more() -> None:
    """Then variants and rules count only where the key may use their models by themselves."""
    rules = (RouteRule("long", "large", prompt_tokens_from=1),)
    lenient, strict = models_with(a_route(rules=rules)), models_with(a_route(rules=rules, checks_variants=True))

    assert ("large", "long") == await chosen(lenient, asking(permits=permits("chat")))
    assert ("b", "weight") == await chosen(strict, asking(permits=permits("chat", "b")))
    assert ("large", "long") == await chosen(strict, asking(permits=permits("chat", "large")))


async def test_a_key_that_may_use_no_variant_is_refused() -> None:
    """In words that name no variant: those are no one's business."""
    models = models_with(a_route(checks_variants=True))
    with pytest.raises(Forbidden, match="may not use any of the models that 'chat' stands for") as refused:
        await chosen(models, asking(permits=permits("chat")))

    assert "model_not_allowed" == refused.value.code


async def test_a_model_that_goes_away_while_tokens_are_counted_is_unknown() -> None:
    """The settings changed under the request."""
    models = models_with(a_route(variants=Variants({"gone": 1.0}, key="x")))
    with pytest.raises(UnknownModel, match="no longer served here"):
        await chosen(models, asking())
