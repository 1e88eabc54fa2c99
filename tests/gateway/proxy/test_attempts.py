"""The attempts of one request at workers and fallbacks, and how they end."""

import json
from collections.abc import Callable

import pytest

from gateway.backends.backend import WHOLE_ANSWER_BYTES
from gateway.protocol.errors import InvalidField, NoWorker, ReplyBroken
from gateway.protocol.usage import Usage
from gateway.proxy.attempt import Attempt
from gateway.proxy.attempts import Attempts
from gateway.tenancy.ledger.price import Price
from routing.booking import Ending, Outcome
from routing.dispatcher import Dispatch, Immediate, Refusal
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, Streams
from tests.gateway.examples import (
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WHOLE,
    WORLD,
    InGivenOrder,
    WatchedFleet,
    a_model,
    some_fallbacks,
)
from tests.gateway.proxy.trial import Trial, asked, asking, bedrock
from tests.routing.examples import only

pytestmark = pytest.mark.interpreted

# ---- the fallback


async def test_the_fallback_answers_after_all_workers() -> None:
    """Each worker was asked first; backend and usage are those of the fallback."""
    workers, fallback = [Refuses(), Answers(500)], bedrock(Answers(200, WHOLE))
    trial = Trial(a_model(*workers, fallback=fallback))
    answer = await trial.run(then=Attempts.answered)
    exchange = trial.exchange

    assert WHOLE == answer.first
    assert [1, 1, 1] == asked(*workers, fallback)
    assert ("bedrock:claude", 3, True, Usage(7, 2)) == (
        exchange.backend,
        exchange.attempts,
        exchange.fell_back,
        exchange.usage,
    )
    assert {"a": 0, "b": 0} == trial.loads


async def test_the_fallback_is_not_asked_if_a_worker_answers() -> None:
    """A 4xx that blames the caller is an answer."""
    fallback = bedrock(Answers(200))
    trial = Trial(a_model(Refuses(), Answers(400), fallback=fallback))
    await trial.run()

    assert [0] == asked(fallback)
    assert not trial.exchange.fell_back


async def test_a_model_may_have_fallbacks_only() -> None:
    """The first byte of its stream is recorded without a slot."""
    trial = Trial(a_model(fallback=bedrock(Streams(HELLO, DONE))), streams=True)
    answer = await trial.run()

    assert HELLO == answer.first
    assert 100.0 == trial.exchange.first_byte


async def test_the_only_fallback_is_asked_again() -> None:
    """A model without workers waits for its fallback as others do for a worker."""
    fallback = bedrock(Answers(503))
    trial = Trial(a_model(fallback=fallback), most=2, wait_s=60.0)
    trial.model.has_fleet = False
    failure = await trial.failure()

    assert [2] == asked(fallback)
    assert 503 == failure.status


async def test_a_prompt_too_long_for_the_only_backend_is_a_400() -> None:
    """No other backend has more room."""
    body = b'{"error":{"message":"maximum context length is 8192 tokens","code":400}}'
    trial = Trial(a_model(fallback=bedrock(Answers(400, body))))
    trial.model.has_fleet = False
    failure = await trial.failure()

    assert (400, "context_length_exceeded", None) == (failure.status, failure.code, failure.retry_after_s)


async def test_the_retry_after_of_a_fallback_reaches_the_caller() -> None:
    """No other backend can answer."""
    trial = Trial(a_model(fallback=bedrock(Answers(429, headers=[(b"retry-after", b"41")]))))
    trial.model.has_fleet = False
    failure = await trial.failure()

    assert (503, 41.0) == (failure.status, failure.retry_after_s)


async def test_a_request_that_the_fallback_cannot_serve_is_503() -> None:
    """A worker would have served it, so the caller is not to blame."""
    fallback = bedrock(Raises(InvalidField("'n' must be 1", param="n")))
    trial = Trial(a_model(Refuses(), fallback=fallback))
    failure = await trial.failure()

    assert (503, 2.0) == (failure.status, failure.retry_after_s)
    assert "'n' must be 1" in failure.message
    assert not trial.exchange.fell_back


@pytest.mark.parametrize("fallback", [Refuses(), Answers(500), BreaksAfter(0)])
async def test_the_error_is_that_of_the_workers_if_the_fallback_fails_too(fallback: Fake) -> None:
    """The operator has to fix the workers first."""
    failure = await Trial(a_model(Answers(503, b'{"message":"busy"}'), fallback=bedrock(fallback))).failure()

    assert (503, "a answered 503: busy") == (failure.status, failure.message)
    assert all(reply.closed for reply in fallback.replies)


async def test_an_error_of_all_backends_has_retry_after() -> None:
    """It has one even if the workers' own status would have none."""
    failure = await Trial(a_model(Answers(500, b'{"message":"no"}'), fallback=bedrock(Answers(500)))).failure()

    assert (503, 2.0, "a answered 500: no") == (failure.status, failure.retry_after_s, failure.message)


async def test_a_request_without_permission_does_not_fall_back() -> None:
    fallback = bedrock(Answers(200, WHOLE))
    await Trial(a_model(Refuses(), fallback=fallback), fallback_request=None).failure()

    assert [0] == asked(fallback)


async def test_fallbacks_are_asked_in_their_order() -> None:
    """The kind and the price are those of the first one that answers."""
    first, second, third = Answers(500), Answers(200, WHOLE), Answers(200, WHOLE)
    model = a_model(Refuses())
    price = Price(1e-6, 1e-6, 2e-6)
    model.fallbacks = some_fallbacks(first, second, third, price=price)
    trial = Trial(model)
    await trial.run()

    assert [1, 1, 0] == asked(first, second, third)
    assert "bedrock" == trial.exchange.served_by
    assert price is trial.exchange.price


async def test_attempts_at_fallbacks_are_counted_by_outcome() -> None:
    """Disconnects and refused requests count as well."""
    ends: list[tuple[Fake, Callable[[Attempts, Attempt], object]]] = [
        (Answers(200, WHOLE), Attempts.answered),
        (Answers(200, WHOLE), lambda _, __: None),
        (Answers(200, WHOLE), lambda attempts, _: attempts.broken(ReplyBroken("cut"))),
        (Answers(400), Attempts.answered),
    ]
    counts = []
    for fallback, then in ends:
        model = a_model(fallback=fallback)
        await Trial(model).run(then=then)
        counts.append(dict(model.fallbacks.counts.requests))

    assert [
        {("w", "answered"): 1},
        {("w", "left"): 1},
        {("w", "failed"): 1},
        {("w", "unused"): 1},
    ] == counts


async def test_a_request_that_is_too_long_for_the_workers_goes_to_a_fallback_first() -> None:
    """If no fallback takes it, the workers' own refusal goes to the caller."""
    worker, fallback = Answers(200, WHOLE), bedrock(Answers(200, WHOLE))
    model = a_model(worker, fallback=fallback)
    model.context_tokens = 25
    await Trial(model).run()

    assert [0, 1] == asked(worker, fallback)

    model.fallbacks = some_fallbacks(Answers(500))
    await Trial(model).run()

    assert [1, 1] == asked(worker, fallback)


class Spills(Immediate):
    """Refuses each request that may spill."""

    def poll(self, now: float) -> list[Dispatch]:
        self.spilled = [request for request, _ in self._submitted if request.spill_in_s is not None]
        self._submitted = [each for each in self._submitted if each[0].spill_in_s is None]
        return super().poll(now)

    def refused(self) -> list[Refusal]:
        return [Refusal(request, "spill", 9.0, 1.0) for request in self.spilled]


@pytest.mark.parametrize(("fallback", "expected"), [(Answers(200, WHOLE), [0, 1]), (Answers(500), [1, 1])])
async def test_a_request_that_would_wait_too_long_goes_to_a_fallback(fallback: Answers, expected: list[int]) -> None:
    """If no fallback answers, it waits for the workers."""
    worker = Answers(200, WHOLE)
    fleet = WatchedFleet(1)
    model = a_model(worker, fallback=fallback, fleet=fleet, dispatcher=Spills(fleet, only(InGivenOrder())))
    await Trial(model, request=asking(spill_in_s=1.0)).run()

    assert expected == asked(worker, fallback)


# ---- streams


async def test_a_stream_begins_with_its_first_event() -> None:
    """Half an event does not commit the status: it is held until the rest has come."""
    trial = Trial(a_model(Streams(HELLO[:9], HELLO[9:20], HELLO[20:] + WORLD[:5], WORLD[5:], DONE)), streams=True)
    answer = await trial.run()

    assert HELLO == answer.first
    assert answer.observer is not None
    assert 100.0 == trial.exchange.first_byte


async def test_the_first_byte_ends_the_prefill() -> None:
    """The fleet learns the worker's speed from its time."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, DONE), fleet=fleet), streams=True)
    trial.clock.now = 103.0
    await trial.run()

    assert 103.0 == fleet.released[0].first_byte_at


@pytest.mark.parametrize(
    "failing",
    [
        Streams(ERROR, DONE),
        Streams(ERROR[:20], ERROR[20:], DONE),
        Streams(HELLO + ERROR + DONE),
        Streams(),
        Streams(b""),
        Streams(HELLO[:-2]),
        Streams(HELLO),
        Streams(b": comment\n\n", b": comment\n\n"),
        Streams(b'data: {"choices":[{"delta":{"content":"' + b"x" * 70_000),
        BreaksAfter(1, HELLO[:-2]),
    ],
)
async def test_a_stream_that_fails_before_it_began_moves_on(failing: Fake) -> None:
    """Engines answer 200 early; nothing was sent to the caller yet."""
    workers = failing, Streams(WORLD, DONE)
    answer = await Trial(a_model(*workers), streams=True).run()

    assert WORLD == answer.first
    assert [1, 1] == asked(*workers)
    assert all(reply.closed for reply in failing.replies)


async def test_an_error_event_of_the_last_worker_is_reported() -> None:
    """Its message is part of the error."""
    failure_trial = Trial(a_model(Streams(ERROR)), streams=True)
    failure = await failure_trial.failure()

    assert isinstance(failure, NoWorker)
    assert "a sent an error event: out of memory" in failure.message


async def test_announcements_are_held_up_to_64_kib() -> None:
    """After that the stream counts as begun."""
    comment = b": " + b"x" * 9_000 + b"\n\n"
    worker = Hangs(*[comment] * 10)
    answer = await Trial(a_model(worker, Streams(WORLD, DONE)), streams=True).run()

    assert comment * 8 == answer.first


GIVEN_UP = b'data: {"choices":[{"delta":{"content":""},"finish_reason":"abort"}]}\n\n'


@pytest.mark.parametrize(
    ("failing", "streams"),
    [
        (Streams(GIVEN_UP + DONE), True),
        (Streams(HELLO + GIVEN_UP + DONE), True),
        (Answers(200, b'{"choices":[{"message":{"content":""},"finish_reason":"abort"}]}'), False),
        (Answers(200, b'{"choices":[{"message":{"content":"Hel"},"finish_reason" : "abort"}]}'), False),
    ],
)
async def test_an_aborted_answer_moves_on(failing: Fake, streams: bool) -> None:
    """A vLLM that stops or sleeps sends 200 with finish_reason abort."""
    fleet = WatchedFleet(2)
    spare = Streams(WORLD, DONE) if streams else Answers(200, WHOLE)
    answer = await Trial(a_model(failing, spare, fleet=fleet), streams=streams).run()

    assert (WORLD if streams else WHOLE) == answer.first
    assert ("a", Ending.FAILED) == fleet.endings[0]


@pytest.mark.parametrize("body", [b'{"choices":[{"message":{"content":"\\"abort\\""}}]}', b'{"token":"abort"}'])
async def test_an_answer_may_contain_the_word_abort(body: bytes) -> None:
    """Only the finish reason counts."""
    assert body == (await Trial(a_model(Answers(200, body))).run()).first


async def test_an_abort_within_the_stream_is_a_failure() -> None:
    """The caller has a part of it already."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, GIVEN_UP, DONE), fleet=fleet), streams=True)

    def relayed(attempts: Attempts, answer: Attempt) -> None:
        assert answer.observer is not None
        answer.observer.feed(GIVEN_UP + DONE)
        attempts.answered(answer)

    await trial.run(then=relayed)

    assert [("a", Ending.FAILED)] == fleet.endings


TOO_LONG = b'data: {"error":{"message":"too long","type":"BadRequestError","code":400}}\n\n'


async def test_a_stream_that_begins_with_the_callers_fault_is_a_plain_refusal() -> None:
    """SGLang finds after its 200 that a prompt is too long; no worker is to blame."""
    fleet = WatchedFleet(2)
    workers = Streams(TOO_LONG, DONE), Streams(WORLD, DONE)
    trial = Trial(a_model(*workers, fleet=fleet), streams=True)
    answer = await trial.run(then=Attempts.answered)

    result = {"message": "too long", "type": "BadRequestError", "param": None, "code": None}
    assert (400, {"error": result}, None) == (answer.status, json.loads(answer.first), answer.observer)
    assert [(b"content-type", b"application/json")] == answer.headers
    assert [1, 0] == asked(*workers)
    assert [("a", Ending.REFUSED)] == fleet.endings
    assert "Refused" == trial.exchange.error


@pytest.mark.parametrize(
    "code", [b"401", b"408", b"429", b"500", b'"context_length_exceeded"', b'"' + b"4" * 9_999 + b'"', b"4e2", b"null"]
)
async def test_other_codes_blame_the_worker(code: bytes) -> None:
    """The next one may do better."""
    workers = Streams(TOO_LONG.replace(b"400", code)), Streams(WORLD, DONE)
    answer = await Trial(a_model(*workers), streams=True).run()

    assert (WORLD, 200) == (answer.first, answer.status)


async def test_a_4xx_within_the_stream_counts_against_no_worker() -> None:
    """It is passed on, and the caller pays for its usage."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, TOO_LONG, DONE), fleet=fleet), streams=True)

    def relayed(attempts: Attempts, answer: Attempt) -> None:
        assert answer.observer is not None
        answer.observer.feed(TOO_LONG + DONE)
        attempts.answered(answer)

    await trial.run(then=relayed)

    assert ([("a", Ending.REFUSED)], "Refused") == (fleet.endings, trial.exchange.error)


async def test_an_error_inside_the_stream_is_a_failure() -> None:
    """It is passed on and counts against the worker; its usage does not count."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, ERROR, USAGE, DONE), fleet=fleet), streams=True)

    def relayed(attempts: Attempts, answer: Attempt) -> None:
        assert answer.observer is not None
        answer.observer.feed(ERROR + USAGE + DONE)
        attempts.answered(answer)

    await trial.run(then=relayed)

    assert [Outcome(Ending.FAILED)] == fleet.outcomes
    assert (ReplyBroken.__name__, None) == (trial.exchange.error, trial.exchange.usage)


async def test_a_stream_that_broke_is_a_failure() -> None:
    """The relay reports it."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(BreaksAfter(1, HELLO), fleet=fleet), streams=True)
    await trial.run(then=lambda attempts, _: attempts.broken(ReplyBroken("cut")))

    assert [("a", Ending.FAILED)] == fleet.endings


async def test_the_usage_of_a_stream_is_taken_from_its_observer() -> None:
    """It comes after the first byte, with the last events."""
    trial = Trial(a_model(Streams(HELLO + USAGE + DONE)), streams=True)
    await trial.run(then=Attempts.answered)

    assert Usage(7, 2) == trial.exchange.usage


# ---- whole answers


async def test_a_broken_answer_that_does_not_stream_moves_on() -> None:
    """Nothing was sent to the caller before it was complete."""
    workers = BreaksAfter(2, b'{"choi', b'ces":', b"[]}"), Answers(200, b"{", b"}")
    answer = await Trial(a_model(*workers)).run()

    assert b"{}" == answer.first
    assert workers[0].replies[0].closed


async def test_an_answer_without_a_body_is_an_answer() -> None:
    """The gateway does not judge it."""
    answer = await Trial(a_model(Answers(204, b""))).run()

    assert (204, b"") == (answer.reply.status, answer.first)


async def test_an_answer_that_is_too_large_is_a_failure() -> None:
    """At most 64 MiB are kept."""
    piece = bytes(WHOLE_ANSWER_BYTES // 4)
    fits, too_large = Answers(200, *[piece] * 4), Answers(200, *[piece] * 4, b"x")

    assert WHOLE_ANSWER_BYTES == len((await Trial(a_model(fits)).run()).first)
    assert "larger than the limit of 67108864 bytes" in (await Trial(a_model(too_large)).failure()).message
