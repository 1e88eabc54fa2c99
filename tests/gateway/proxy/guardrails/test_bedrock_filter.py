import json
from typing import Any

import httpx
import pytest

from gateway.backends.bedrock.bearer import BearerSigner
from gateway.backends.bedrock.endpoint import BedrockEndpoint, BedrockTimeouts
from gateway.protocol.errors import GuardrailUnavailable
from gateway.proxy.guardrails.bedrock_filter import BedrockFilter
from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, Action, Verdict
from gateway.proxy.guardrails.service_caller import ServiceCaller, ServiceLimits
from tests.gateway.examples import Clock
from tests.gateway.proxy.guardrails.examples import a_question

NONE = {"action": "NONE", "outputs": [], "assessments": [{}]}
MASKED = {
    "action": "GUARDRAIL_INTERVENED",
    "outputs": [{"text": "call {PHONE}"}],
    "assessments": [{"sensitiveInformationPolicy": {"piiEntities": [{"type": "PHONE", "action": "ANONYMIZED"}]}}],
}
BLOCKED = {
    "action": "GUARDRAIL_INTERVENED",
    "outputs": [{"text": "Sorry."}],
    "assessments": [
        {"topicPolicy": {"topics": [{"name": "Arms", "action": "BLOCKED"}]}},
        {"sensitiveInformationPolicy": {"piiEntities": [{"type": "PHONE", "action": "ANONYMIZED"}]}},
    ],
}


def a_filter(
    answers: dict[str, Any], asked: list[httpx.Request] | None = None, action: Action = "redact", status: int = 200
) -> BedrockFilter:
    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(request)
        text = json.loads(request.content)["content"][0]["text"]["text"]
        return httpx.Response(status, json=answers.get(text, NONE))

    endpoint = BedrockEndpoint(
        region="us-east-1",
        client=httpx.AsyncClient(transport=httpx.MockTransport(answer)),
        signer=BearerSigner(token="t"),
        endpoint_url="http://bedrock",
        timeouts=BedrockTimeouts(),
    )
    service = ServiceCaller("aws", ServiceLimits(), clock=Clock())
    return BedrockFilter(
        "aws", "arn:aws:bedrock:x:1:guardrail/g", "3", endpoint=endpoint, action=action, service=service
    )


async def test_each_text_is_asked_by_itself() -> None:
    asked: list[httpx.Request] = []

    assert PASS == await a_filter({}, asked).verdict(a_question("a", "b", direction="response"))
    assert 2 == len(asked)
    assert "/guardrail/arn%3Aaws%3Abedrock%3Ax%3A1%3Aguardrail%2Fg/version/3/apply" == asked[0].url.raw_path.decode()
    assert {"source": "OUTPUT", "content": [{"text": {"text": "a"}}]} == json.loads(asked[0].content)
    assert "Bearer t" == asked[0].headers["authorization"]


@pytest.mark.parametrize(
    ("answer", "action", "verdict"),
    [
        (MASKED, "redact", Verdict("redact", ("call {PHONE}", "b"))),
        (MASKED, "block", BLOCK),
        (MASKED, "log", LOG),
        (BLOCKED, "redact", BLOCK),
        ({"action": "GUARDRAIL_INTERVENED", "outputs": []}, "redact", BLOCK),
        ({"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": "x"}], "assessments": []}, "redact", BLOCK),
    ],
)
async def test_what_it_says_is_done(answer: dict[str, Any], action: Action, verdict: Verdict) -> None:
    """What is anonymised is redacted; what is blocked, or not said to be less, blocks."""
    assert verdict == await a_filter({"a": answer}, action=action).verdict(a_question("a", "b"))


@pytest.mark.parametrize(("answer", "status"), [(NONE, 403), ({"x": 1}, 200)])
async def test_what_is_no_answer_leaves_it_open(answer: dict[str, Any], status: int) -> None:
    with pytest.raises(GuardrailUnavailable):
        await a_filter({"a": answer}, status=status).verdict(a_question("a"))
