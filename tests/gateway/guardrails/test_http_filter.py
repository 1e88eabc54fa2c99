import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.errors import GuardrailAway
from gateway.guardrails.filter import BLOCK, LOG, PASS, Action, Verdict
from gateway.guardrails.http_filter import HttpFilter
from gateway.guardrails.patience import Patience, Patient
from tests.gateway.examples import Clock
from tests.gateway.guardrails.examples import a_question


def a_filter(answer: Callable[[httpx.Request], httpx.Response], action: Action = "redact") -> HttpFilter:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    patient = Patient("judge", Patience(), clock=Clock())
    return HttpFilter("judge", "http://judge/x", api_key="k", action=action, client=client, patient=patient)


def says(**told: Any) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, json=told)


async def test_it_is_asked_with_all_that_it_may_know() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"action": "pass"})

    assert PASS == await a_filter(answer).verdict(a_question("a", "b", direction="response"))
    told = {"direction": "response", "texts": ["a", "b"], "team": None, "model": "tiny"}
    assert told == json.loads(asked[0].content)
    assert "Bearer k" == asked[0].headers["authorization"]


@pytest.mark.parametrize(
    ("told", "action", "verdict"),
    [
        ({"action": "redact", "texts": ["x", "b"]}, "redact", Verdict("redact", ("x", "b"))),
        ({"action": "redact", "texts": ["a", "b"]}, "redact", PASS),
        ({"action": "redact", "texts": ["x", "b"]}, "block", BLOCK),
        ({"action": "block"}, "redact", BLOCK),
        ({"action": "block"}, "log", LOG),
        ({"action": "pass"}, "block", PASS),
    ],
)
async def test_what_is_made_of_its_answer(told: dict[str, Any], action: Action, verdict: Verdict) -> None:
    assert verdict == await a_filter(says(**told), action).verdict(a_question("a", "b"))


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(500),
        httpx.Response(302, headers={"location": "http://elsewhere/"}),
        httpx.Response(200, text="fine"),
        httpx.Response(200, json={"action": "maybe"}),
        httpx.Response(200, json={"action": "redact", "texts": ["only one"]}),
    ],
)
async def test_what_is_no_answer_leaves_it_open(response: httpx.Response) -> None:
    with pytest.raises(GuardrailAway):
        await a_filter(lambda _: response).verdict(a_question("a", "b"))
