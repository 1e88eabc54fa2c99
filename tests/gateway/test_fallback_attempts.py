"""The fallbacks of one request."""

import logging

import pytest

from gateway.cascade.need import Need
from gateway.endpoints.table import ENDPOINTS
from gateway.errors import NoWorker, ReplyBroken
from gateway.exchange import Exchange
from gateway.fallback_attempts import FallbackAttempts
from routing.booking import Ending
from tests.fakes.backends import Answers, Fake, Refuses
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
