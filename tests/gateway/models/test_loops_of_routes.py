"""A route never changes the model inside a tool loop."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models.model_names import ModelNames
from gateway.models.registry import Models
from gateway.models.route_chooser import RouteChooser, RouteQuery
from gateway.models.routes.route import Route
from gateway.models.routes.routes import RouteTable
from gateway.models.routes.rule import RouteRule
from gateway.protocol.body import parse_chat
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.permits import Permits
from gateway.tenancy.teams.team import Team
from tests.gateway.models.test_route_chooser import a_route, chosen, models_with

LONG = RouteRule("long", "large", prompt_tokens_from=1000)
PICTURES = RouteRule("pictures", "large", asks=frozenset({"images"}))
IMAGE = [{"type": "image_url", "image_url": {"url": "data:,x"}}]


def request(turn: str, *results: Any, tools: bool = True, text: str = "", **more: Any) -> RouteQuery:
    """A request after the model called a tool for each of *results*, for the user's message *turn*."""
    known = {name: more.pop(name) for name in ("key", "team", "permits") if name in more}
    messages: list[dict[str, Any]] = [{"role": "user", "content": turn + text}]
    for i, result in enumerate(results):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{i}", "content": result})
    body = {"model": "chat", "messages": messages, **({"tools": [{"type": "function"}]} if tools else {}), **more}
    raw = json.dumps(body).encode()
    return RouteQuery("/v1/chat/completions", raw, parse_chat(raw), lambda _: None, **known)


def set_up(models: Models, name: str, *, up: bool) -> None:
    model = models.get(name)
    assert model is not None
    for worker in model.workers:
        model.fleet.set_up(worker, up=up)


async def model_of(models: Models, ask: RouteQuery) -> str:
    return (await chosen(models, ask))[0]


async def test_results_of_tools_go_to_the_model_that_called_the_tools() -> None:
    models = models_with(a_route())
    for turn in map(str, range(20)):
        first = await model_of(models, request(turn))
        for count in range(1, 4):
            assert (first, "tool_loop") == await chosen(models, request(turn, *["x"] * count))


async def test_both_variants_answer_loops() -> None:
    models = models_with(a_route())
    got = Counter([await model_of(models, request(str(i))) for i in range(200)])

    assert {"a", "b"} == got.keys()
    assert min(got.values()) > 60


@pytest.mark.parametrize("rules", [(LONG,), (PICTURES,)])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_rule_that_matches_only_inside_the_loop_does_not_apply(
    rules: tuple[RouteRule, ...], replicas: int
) -> None:
    """Neither on the gateway that began the loop, nor on another one."""
    gateways = [models_with(a_route(rules=rules)) for _ in range(replicas)]
    for turn in map(str, range(20)):
        first = await model_of(gateways[0], request(turn))
        assert first in {"a", "b"}
        for result in ("word " * 2000, IMAGE):
            assert first == await model_of(gateways[-1], request(turn, result))


async def test_a_rule_that_matches_the_beginning_applies_to_the_whole_loop() -> None:
    first, other = (models_with(a_route(rules=(LONG, PICTURES))) for _ in range(2))
    text = "word " * 2000

    assert ("large", "long") == await chosen(first, request("1", text=text))
    assert ("large", "tool_loop") == await chosen(first, request("1", "x", text=text))
    assert ("large", "long") == await chosen(other, request("1", "x", text=text))


async def test_the_next_message_of_the_user_is_chosen_again() -> None:
    models = models_with(a_route(rules=(LONG,)))
    await model_of(models, request("1"))
    await model_of(models, request("1", "x"))

    assert ("large", "long") == await chosen(models, request("2", text="word " * 2000))


async def test_a_loop_waits_for_its_model() -> None:
    """Another model would continue calls that it did not make. A loop that begins meanwhile goes elsewhere."""
    models = models_with(a_route())
    turns = [str(i) for i in range(20)]
    of_turns = {turn: await model_of(models, request(turn)) for turn in turns}
    set_up(models, "a", up=False)

    assert of_turns == {turn: await model_of(models, request(turn, "x")) for turn in turns}
    assert {"b"} == {await model_of(models, request(f"new {turn}")) for turn in turns}


async def test_a_loop_that_began_elsewhere_stays_there_when_its_first_choice_is_back() -> None:
    models = models_with(a_route(), down=("a",))
    turns = [str(i) for i in range(20)]
    for turn in turns:
        assert "b" == await model_of(models, request(turn))
    set_up(models, "a", up=True)

    assert {"b"} == {await model_of(models, request(turn, "x")) for turn in turns}


async def test_loops_end_with_a_model_whose_weight_becomes_0() -> None:
    route = a_route()
    models = models_with(route)
    turns = [str(i) for i in range(20)]
    of_turns = {turn: await model_of(models, request(turn)) for turn in turns}
    route.reweigh({"a": 1.0, "b": 0.0})

    assert of_turns == {turn: await model_of(models, request(turn, "x")) for turn in turns}
    assert {"a"} == {await model_of(models, request(f"new {turn}")) for turn in turns}


async def test_a_reload_keeps_loops_and_a_model_that_is_gone_is_replaced() -> None:
    models = models_with(a_route())
    turns = [str(i) for i in range(20)]
    of_turns = {turn: await model_of(models, request(turn)) for turn in turns}
    names = ModelNames([*((name, ()) for name in ("a", "b", "large")), ("chat", [])])
    served = {name: model for name in ("a", "b", "large") if (model := models.get(name)) is not None}
    only_a = Route("chat", first="a", variants=a_route().variants.reweighed({"a": 1.0}))
    for route in (a_route(), only_a):
        models.replace(served, names, RouteTable([route], models.routes))
        expected = of_turns if route is not only_a else dict.fromkeys(turns, "a")
        assert expected == {turn: await model_of(models, request(turn, "x")) for turn in turns}


async def test_loops_of_teams_and_keys_are_apart() -> None:
    """One team cannot choose the model of another team's loop."""
    models = models_with(a_route(), down=("a",))
    turns = [str(i) for i in range(20)]
    for turn in turns:
        await model_of(models, request(turn, team="blue", key="ci"))
    set_up(models, "a", up=True)
    blue = {await model_of(models, request(turn, "x", team="blue", key="ci")) for turn in turns}
    red = {await model_of(models, request(turn, "x", team="red", key="ci")) for turn in turns}

    assert ({"b"}, {"a", "b"}) == (blue, red)


async def test_a_key_that_loses_permission_for_the_model_of_its_loop_gets_another_model() -> None:
    models = models_with(a_route(checks_variants=True), down=("a",))
    both, one = (Permits(Team("t"), Key("k", "t", "", models=names)) for names in (("a", "b"), ("a",)))

    assert "b" == await model_of(models, request("1", permits=both))
    assert "a" == await model_of(models, request("1", "x", permits=one))


async def test_who_peeks_begins_and_changes_no_loop() -> None:
    models = models_with(a_route())
    await RouteChooser(models, lambda _: None).model(request("1"), peeks=True)

    assert models.routes is not None
    assert 0 == len(models.routes.tool_loops)


async def test_requests_without_tools_are_dealt_as_before() -> None:
    """Also if they are equal."""
    models = models_with(a_route())
    got = Counter([await model_of(models, request("1", tools=False)) for _ in range(40)])

    assert got["a"] == pytest.approx(20, abs=2)


@given(
    loops=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=40),
    sticky=st.sampled_from(["none", "key"]),
)
async def test_no_sequence_of_requests_changes_the_model_of_a_loop(
    loops: list[tuple[int, int, bool]], sticky: str
) -> None:
    """Requests of six loops in any order, on three gateways, with results of any length."""
    gateways = [models_with(a_route(rules=(LONG,), sticky=sticky)) for _ in range(3)]
    begun: dict[int, tuple[str, int]] = {}
    for loop, gateway, is_long in loops:
        model, count = begun.get(loop, ("", 0))
        results = ["word " * 2000 if is_long else "x"] * count
        got = await model_of(gateways[gateway], request(str(loop), *results, key=f"k{loop}"))
        assert model in {"", got}
        begun[loop] = (got, count + 1)
