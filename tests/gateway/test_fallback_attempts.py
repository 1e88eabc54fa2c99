"""The fallbacks of one request."""

import json
import logging
from typing import Any

import pytest

from gateway.cascade.allowance import Rates
from gateway.cascade.need import Need
from gateway.endpoints.table import ENDPOINTS
from gateway.errors import InvalidField, NoWorker, PromptTooLong, ReplyBroken
from gateway.exchange import Exchange
from gateway.fallback_attempts import FallbackAttempts
from routing.booking import Ending
from tests.fakes.backends import Answers, BreaksAfter, Fake, Raises, Refuses, ScriptedReply
from tests.gateway.examples import WHOLE, Clock, a_call, a_cascade, an_exchange

PATH = "/v1/chat/completions"
NEED = Need(prompt_tokens=10.0, max_tokens=16, expected_output_tokens=16.0, team="", path=PATH)
TOO_LONG = b'{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}'


class Trial:
    """One request before *backends*, which it may ask."""

    def __init__(self, *backends: Fake) -> None:
        for number, backend in enumerate(backends):
            backend.id = f"f{number}"
        self.cascade = a_cascade(*backends)
        self.exchange: Exchange = an_exchange()
        self.attempts = FallbackAttempts(
            ENDPOINTS[PATH], self.cascade, a_call(), NEED, self.exchange, strip_usage=False, clock=Clock()
        )


async def test_the_next_one_is_asked_where_one_has_no_room_for_the_prompt() -> None:
    """Its tokenizer counts otherwise, so that it is known only then; what it refused costs nothing."""
    short, long = Answers(400, TOO_LONG), Answers(200, WHOLE)
    trial = Trial(short, long)
    attempt, cause = await trial.attempts.first_answer(None)

    assert attempt is not None
    assert (WHOLE, None) == (attempt.first, cause)
    assert short.replies[0].closed
    assert {("f0", "unused"): 1} == dict(trial.cascade.counts.requests)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length",
        "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
    ],
)
async def test_so_it_is_where_the_code_says_nothing(message: str) -> None:
    """In the words of vLLM, and of Bedrock's models."""
    said = json.dumps({"error": {"message": message, "type": "BadRequestError", "code": 400}}).encode()
    attempt, cause = await Trial(Answers(400, said), Answers(200, WHOLE)).attempts.first_answer(None)

    assert attempt is not None
    assert (WHOLE, None) == (attempt.first, cause)


async def test_what_is_too_long_for_all_has_the_words_of_the_last() -> None:
    """They name the limit."""
    attempt, cause = await Trial(Answers(400, TOO_LONG)).attempts.first_answer(None)

    assert attempt is None
    assert isinstance(cause, PromptTooLong)
    assert ("too long", 400, "context_length_exceeded") == (cause.message, cause.status, cause.code)


async def test_the_wait_that_a_fallback_names_is_kept() -> None:
    """The shortest of all."""
    trial = Trial(Answers(429, headers=[(b"retry-after", b"41")]), Answers(503, headers=[(b"retry-after", b"17")]))
    await trial.attempts.first_answer(None)

    assert 17.0 == trial.attempts.retry_in_s


async def test_so_is_the_wait_for_room_in_a_rate() -> None:
    """A fallback that was not asked knows when it may be."""
    trial = Trial(Answers(200, WHOLE))
    trial.cascade.fallbacks[0].target.allowance.take(Rates(requests_per_minute=1, ramp_s=None))
    await trial.attempts.first_answer(None)
    trial.attempts.settle(Ending.ANSWERED, None)
    assert trial.attempts.retry_in_s is None
    await trial.attempts.first_answer(None)

    assert 72.0 == pytest.approx(trial.attempts.retry_in_s)


async def test_a_refusal_of_another_kind_is_the_callers() -> None:
    """Every fallback would say the same."""
    attempt, _ = await Trial(Answers(400), Answers(200, WHOLE)).attempts.first_answer(None)

    assert attempt is not None
    assert 400 == attempt.status


async def test_what_was_reserved_is_settled_once() -> None:
    trial = Trial(Answers(200, WHOLE))
    await trial.attempts.first_answer(None)
    trial.attempts.settle(Ending.FAILED, ReplyBroken("cut"))
    trial.attempts.settle(Ending.ANSWERED, None)

    assert {("f0", "failed"): 1} == dict(trial.cascade.counts.requests)


async def test_the_log_has_both_causes_and_nothing_that_anybody_said(caplog: pytest.LogCaptureFixture) -> None:
    """What a backend says may quote the prompt."""
    trial = Trial(Answers(500, b'{"message":"the prompt was: hello"}'), Refuses())
    with caplog.at_level(logging.WARNING):
        attempt, cause = await trial.attempts.first_answer(NoWorker("nobody"))

    assert attempt is None
    assert cause is not None
    assert [
        "request r-1 failed: workers: NoWorker 503; fallbacks: f0: UpstreamRefused 500; f1: ConnectFailed 502"
    ] == caplog.messages


async def test_an_outage_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """Not with every request."""
    backend = AnswersAtLast(3, Answers(503), Answers(200, WHOLE))
    trial = Trial(backend)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            trial.cascade.fallbacks[0].target.breaker.forget()
            await trial.attempts.first_answer(NoWorker("nobody"))
            trial.attempts.settle(Ending.ANSWERED, None)

    assert 2 == len(caplog.messages)
    assert caplog.messages[0].startswith("request r-1 failed: ")
    assert "model tiny: a fallback answers again after 0 s, in which 3 requests failed" == caplog.messages[1]


async def test_a_request_that_a_fallback_cannot_serve_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    """It is wrong for the one, and others are not."""
    with caplog.at_level(logging.WARNING):
        await Trial(Raises(InvalidField("'n' must be 1", param="n"))).attempts.first_answer(NoWorker("nobody"))

    assert [] == caplog.messages


class AnswersAtLast(Fake):
    """As *before*, so many times, and from then on as *then*."""

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


async def test_the_only_fallback_is_asked_again_where_it_did_nothing() -> None:
    """As the last worker would be."""
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
async def test_its_patience_has_bounds(backend: Fake, wait_s: float, most: int | None, attempts: int) -> None:
    """Of time and attempts; a wait that cannot fit is not begun, and what is paid for is not asked for twice."""
    trial = Trial(backend)
    attempt, _ = await patiently(trial, wait_s, most)

    assert (None, attempts) == (attempt, trial.exchange.attempts)
