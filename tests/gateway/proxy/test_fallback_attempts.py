"""The fallbacks of one request."""

import json
import logging
from typing import Any

import pytest

from gateway.backends.fallbacks.allowance import RateLimits
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import InvalidField, NoWorker, PromptTooLong, ReplyBroken
from gateway.proxy.exchange import Exchange
from gateway.proxy.fallback_attempts import FallbackAttempts
from routing.booking import Ending
from tests.fakes.backends import Answers, BreaksAfter, Fake, Raises, Refuses, ScriptedReply
from tests.gateway.examples import WHOLE, Clock, a_call, an_exchange, some_fallbacks

PATH = "/v1/chat/completions"
REQUEST = FallbackRequest(prompt_tokens=10.0, max_tokens=16, expected_output_tokens=16.0, team="", path=PATH)
TOO_LONG = b'{"error":{"message":"too_long","type":"invalid_request_error","code":"context_length_exceeded"}}'


class Trial:
    """One request and the *backends* that it may ask."""

    def __init__(self, *backends: Fake) -> None:
        for number, backend in enumerate(backends):
            backend.id = f"f{number}"
        self.fallbacks = some_fallbacks(*backends)
        self.exchange: Exchange = an_exchange()
        self.attempts = FallbackAttempts(
            ENDPOINTS[PATH], self.fallbacks, a_call(), REQUEST, self.exchange, strip_usage=False, clock=Clock()
        )


async def test_the_next_fallback_is_asked_if_the_prompt_is_too_long() -> None:
    """Each has its own tokenizer, so only it knows; the refused attempt costs nothing."""
    short, long = Answers(400, TOO_LONG), Answers(200, WHOLE)
    trial = Trial(short, long)
    attempt, cause = await trial.attempts.first_answer(None)

    assert attempt is not None
    assert (WHOLE, None) == (attempt.first, cause)
    assert short.replies[0].closed
    assert {("f0", "unused"): 1} == dict(trial.fallbacks.counts.requests)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length",
        "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
    ],
)
async def test_a_too_long_prompt_is_recognized_by_its_message(message: str) -> None:
    """The messages are those of vLLM and of Bedrock's models."""
    said = json.dumps({"error": {"message": message, "type": "BadRequestError", "code": 400}}).encode()
    attempt, cause = await Trial(Answers(400, said), Answers(200, WHOLE)).attempts.first_answer(None)

    assert attempt is not None
    assert (WHOLE, None) == (attempt.first, cause)


async def test_a_prompt_too_long_for_all_has_the_message_of_the_last() -> None:
    """The message names the limit."""
    attempt, cause = await Trial(Answers(400, TOO_LONG)).attempts.first_answer(None)

    assert attempt is None
    assert isinstance(cause, PromptTooLong)
    assert ("too_long", 400, "context_length_exceeded") == (cause.message, cause.status, cause.code)


async def test_the_shortest_retry_after_is_kept() -> None:
    """All fallbacks count."""
    trial = Trial(Answers(429, headers=[(b"retry-after", b"41")]), Answers(503, headers=[(b"retry-after", b"17")]))
    await trial.attempts.first_answer(None)

    assert 17.0 == trial.attempts.retry_in_s


async def test_a_skipped_fallback_has_a_retry_after() -> None:
    """It is the time until its rate limit has room."""
    trial = Trial(Answers(200, WHOLE))
    trial.fallbacks.in_order[0].target.allowance.set_rates(RateLimits(requests_per_minute=1, ramp_s=None))
    await trial.attempts.first_answer(None)
    trial.attempts.settle(Ending.ANSWERED, None)
    assert trial.attempts.retry_in_s is None
    await trial.attempts.first_answer(None)

    assert 72.0 == pytest.approx(trial.attempts.retry_in_s)


async def test_other_refusals_go_to_the_caller() -> None:
    """Every fallback would answer the same."""
    attempt, _ = await Trial(Answers(400), Answers(200, WHOLE)).attempts.first_answer(None)

    assert attempt is not None
    assert 400 == attempt.status


async def test_what_was_reserved_is_settled_once() -> None:
    trial = Trial(Answers(200, WHOLE))
    await trial.attempts.first_answer(None)
    trial.attempts.settle(Ending.FAILED, ReplyBroken("cut"))
    trial.attempts.settle(Ending.ANSWERED, None)

    assert {("f0", "failed"): 1} == dict(trial.fallbacks.counts.requests)


async def test_the_log_has_both_causes_without_their_messages(caplog: pytest.LogCaptureFixture) -> None:
    """A backend's message may quote the prompt."""
    trial = Trial(Answers(500, b'{"message":"the prompt was: hello"}'), Refuses())
    with caplog.at_level(logging.WARNING):
        attempt, cause = await trial.attempts.first_answer(NoWorker("nobody"))

    assert attempt is None
    assert cause is not None
    assert [
        "request r-1 failed: workers: NoWorker 503; fallbacks: f0: UpstreamRefused 500; f1: ConnectFailed 502"
    ] == caplog.messages


async def test_an_outage_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """It is not logged for each request."""
    backend = AnswersAtLast(3, Answers(503), Answers(200, WHOLE))
    trial = Trial(backend)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            trial.fallbacks.in_order[0].target.breaker.forget()
            await trial.attempts.first_answer(NoWorker("nobody"))
            trial.attempts.settle(Ending.ANSWERED, None)

    assert 2 == len(caplog.messages)
    assert caplog.messages[0].startswith("request r-1 failed: ")
    assert "a fallback of model tiny answers again after 0 s, in which 3 requests failed" == caplog.messages[1]


async def test_a_request_that_a_fallback_cannot_serve_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    """The fallback can serve other requests."""
    with caplog.at_level(logging.WARNING):
        await Trial(Raises(InvalidField("'n' must be 1", param="n"))).attempts.first_answer(NoWorker("nobody"))

    assert [] == caplog.messages


class AnswersAtLast(Fake):
    """Answers like *before* a number of times, then like *then*."""

    def __init__(self, times: int, before: Fake, then: Fake) -> None:
        super().__init__()
        self._times = times
        self._before = before
        self._then = then

    async def _reply(self) -> ScriptedReply:
        self._times -= 1
        return await (self._before if self._times >= 0 else self._then)._reply()


def patiently(trial: Trial, wait_s: float = 60.0, most: int | None = None) -> Any:
    return trial.attempts.patient_answer(NoWorker("nobody"), wait_s=wait_s, max_attempts=most, may_retry=lambda: True)


async def test_the_only_fallback_is_asked_again_if_it_did_nothing() -> None:
    """The last worker is treated in the same way."""
    trial = Trial(AnswersAtLast(2, Answers(500), Answers(200, WHOLE)))
    attempt, _ = await patiently(trial)

    assert attempt is not None
    assert (WHOLE, 3) == (attempt.first, trial.exchange.attempts)


@pytest.mark.parametrize(
    ("backend", "wait_s", "most", "attempts"),
    [
        (Answers(500), 0.0, None, 1),
        (Answers(500), 60.0, 2, 2),
        (Answers(429, headers=[(b"retry-after", b"41")]), 10.0, None, 1),
        (Answers(400, TOO_LONG), 60.0, None, 1),
        (BreaksAfter(0), 60.0, None, 1),
    ],
)
async def test_attempts_at_the_only_fallback_are_bounded(
    backend: Fake, wait_s: float, most: int | None, attempts: int
) -> None:
    """A wait that is too long does not begin, and a paid attempt is not repeated."""
    trial = Trial(backend)
    attempt, _ = await patiently(trial, wait_s, most)

    assert (None, attempts) == (attempt, trial.exchange.attempts)


async def test_failures_are_kept_if_receipts_are() -> None:
    trial = Trial(Refuses(), Answers(200, WHOLE))
    trial.exchange.keeps_decision = True
    await trial.attempts.first_answer(None)

    assert (("f0", "ConnectFailed"),) == trial.exchange.failures
