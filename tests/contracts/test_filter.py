"""Facts about every filter of guardrails."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.backends.bedrock.bearer import BearerSigner
from gateway.backends.bedrock.endpoint import BedrockEndpoint, BedrockTimeouts
from gateway.proxy.guardrails.bedrock_filter import BedrockFilter
from gateway.proxy.guardrails.filter import Action, FilterRequest, GuardrailFilter, Text
from gateway.proxy.guardrails.http_filter import HttpFilter
from gateway.proxy.guardrails.scanning import ScanFilter
from gateway.proxy.guardrails.service_caller import ServiceCaller, ServiceLimits
from tests.gateway.examples import Clock
from tests.gateway.proxy.guardrails.examples import a_scan

MAIL = "jane.doe@example.org"
Make = Callable[[Action], GuardrailFilter]


def _without(text: str) -> str:
    return text.replace(MAIL, "[EMAIL]")


def _scanning(action: Action) -> GuardrailFilter:
    return ScanFilter("it", a_scan(), action)


def _by_http(action: Action) -> GuardrailFilter:
    def answer(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["texts"]
        said: dict[str, Any] = {"action": "redact", "texts": [_without(text) for text in texts]}
        return httpx.Response(200, json=said if any(MAIL in text for text in texts) else {"action": "pass"})

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    service = ServiceCaller("it", ServiceLimits(), clock=Clock())
    return HttpFilter("it", "http://judge/", api_key=None, action=action, client=client, service=service)


def _bedrock(action: Action) -> GuardrailFilter:
    def answer(request: httpx.Request) -> httpx.Response:
        text = json.loads(request.content)["content"][0]["text"]["text"]
        if MAIL not in text:
            return httpx.Response(200, json={"action": "NONE", "outputs": [], "assessments": []})
        policy = {"sensitiveInformationPolicy": {"piiEntities": [{"type": "EMAIL", "action": "ANONYMIZED"}]}}
        said = {"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": _without(text)}], "assessments": [policy]}
        return httpx.Response(200, json=said)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    endpoint = BedrockEndpoint(
        region="eu-west-1",
        client=client,
        signer=BearerSigner(token="t"),
        endpoint_url="http://aws",
        timeouts=BedrockTimeouts(),
    )
    service = ServiceCaller("it", ServiceLimits(), clock=Clock())
    return BedrockFilter("it", "g", "1", endpoint=endpoint, action=action, service=service)


@pytest.fixture(params=[_scanning, _by_http, _bedrock])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def question(*texts: str) -> FilterRequest:
    return FilterRequest("request", tuple(map(Text, texts)), "blue", "tiny")


def test_it_has_the_name_that_it_was_given(make: Make) -> None:
    assert "it" == make("redact").name


async def test_harmless_texts_pass(make: Make) -> None:
    for action in ("redact", "block", "log"):
        assert "pass" == (await make(action).verdict(question("hello", "", "world"))).outcome


async def test_a_redacted_text_comes_back_in_its_place_and_the_others_as_they_were(make: Make) -> None:
    verdict = await make("redact").verdict(question("hello", f"to {MAIL}!", "world"))

    assert ("redact", ("hello", "to [EMAIL]!", "world")) == (verdict.outcome, verdict.texts)


async def test_blocking_blocks_and_logging_only_reports(make: Make) -> None:
    assert "block" == (await make("block").verdict(question(MAIL))).outcome
    assert "log" == (await make("log").verdict(question(MAIL))).outcome


async def test_no_verdict_shows_a_text(make: Make) -> None:
    assert "hello" not in repr(await make("redact").verdict(question("hello", MAIL)))


async def test_the_same_question_has_the_same_answer(make: Make) -> None:
    it = make("redact")

    assert await it.verdict(question(MAIL, "x" * 999)) == await it.verdict(question(MAIL, "x" * 999))
