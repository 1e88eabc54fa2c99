import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.protocol.errors import GuardrailUnavailable
from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, Action, Verdict
from gateway.proxy.guardrails.http_filter import HttpFilter
from gateway.proxy.guardrails.service_caller import ServiceCaller, ServiceLimits
from tests.gateway.examples import Clock
from tests.gateway.proxy.guardrails.examples import a_question


def a_filter(answer: Callable[[httpx.Request], httpx.Response], action: Action = "redact") -> HttpFilter:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    service = ServiceCaller("judge", ServiceLimits(), clock=Clock())
    return HttpFilter("judge", "http://judge/x", api_key="k", action=action, client=client, service=service)


def says(**changed: Any) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, json=changed)


async def test_it_is_asked_with_all_that_it_may_know() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"action": "pass"})

    assert PASS == await a_filter(answer).verdict(a_question("a", "b", direction="response"))
    changed = {"direction": "response", "texts": ["a", "b"], "team": None, "model": "tiny"}
    assert changed == json.loads(asked[0].content)
    assert "Bearer k" == asked[0].headers["authorization"]


@pytest.mark.parametrize(
    ("changed", "action", "verdict"),
    [
        ({"action": "redact", "texts": ["x", "b"]}, "redact", Verdict("redact", ("x", "b"))),
        ({"action": "redact", "texts": ["a", "b"]}, "redact", PASS),
        ({"action": "redact", "texts": ["x", "b"]}, "block", BLOCK),
        ({"action": "block"}, "redact", BLOCK),
        ({"action": "block"}, "log", LOG),
        ({"action": "pass"}, "block", PASS),
    ],
)
async def test_the_answer_of_the_service_is_the_verdict(
    changed: dict[str, Any], action: Action, verdict: Verdict
) -> None:
    assert verdict == await a_filter(says(**changed), action).verdict(a_question("a", "b"))


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
    with pytest.raises(GuardrailUnavailable):
        await a_filter(lambda _: response).verdict(a_question("a", "b"))
