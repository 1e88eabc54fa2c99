"""Trying candidates until one begins to answer, and giving everything back in the end."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index import WorkerId
from gateway.adapters.adapter import Adapter
from gateway.adapters.placement import Placement
from gateway.attempt import WHOLE_ANSWER_BYTES, Attempt
from gateway.attempts import Attempts
from gateway.cascade.need import Need
from gateway.endpoints.table import ENDPOINTS
from gateway.errors import GatewayError, InvalidField, NoWorker, ReplyBroken, UpstreamRefused, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.ledger.price import Price
from gateway.model import Model
from gateway.persistence import Persistence
from gateway.turnstile import Turnstile
from gateway.usage import Usage
from routing.booking import Ending, Outcome
from routing.dispatcher import Dispatch, Immediate, Refusal
from routing.request import Request
from routing.retry_budget import RetryBudget
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, Streams
from tests.gateway.adapters.engines import POET, AnsweringWorker, a_shelf, a_subject, know
from tests.gateway.adapters.test_shelf import running
from tests.gateway.examples import (
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WHOLE,
    WORLD,
    Clock,
    InGivenOrder,
    WatchedFleet,
    a_call,
    a_cascade,
    a_model,
    an_exchange,
    in_flight,
)
from tests.routing.examples import a_request, book, only

CHAT_ENDPOINT = ENDPOINTS["/v1/chat/completions"]
NEED = Need(prompt_tokens=10.0, max_tokens=16, expected_output_tokens=16.0, team="", path="/v1/chat/completions")


class Trial:
    """One request over *model*, up to the first answer or the failure, and then closed."""

    def __init__(
        self,
        model: Model,
        *,
        streams: bool = False,
        most: int | None = None,
        wait_s: float = 0.0,
        margin_s: float = 5.0,
        need: Need | None = NEED,
        request: Request | None = None,
    ) -> None:
        self.model = model
        self.streams = streams
        self.persistence = Persistence(most_attempts=most, wait_s=wait_s, first_byte_margin_s=margin_s)
        self.need = need
        self.request = request or a_request("abc", streams=streams)
        self.clock = Clock()
        self.exchange: Exchange = an_exchange()
        self.loads: dict[str, int] = {}
        """While the first answer was at hand."""

    async def run(self, *, then: Callable[[Attempts, Attempt], object] = lambda _, __: None) -> Attempt:
        attempts = Attempts(
            CHAT_ENDPOINT,
            self.model,
            self.request,
            a_call(streams=self.streams),
            self.exchange,
            strip_usage=False,
            need=self.need,
            persistence=self.persistence,
            clock=self.clock,
        )
        try:
            answer = await attempts.first_answer()
            self.loads = in_flight(self.model)
            then(attempts, answer)
            return answer
        finally:
            await attempts.aclose()

    async def failure(self) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.run()
        return caught.value


def asking(**more: float) -> Request:
    """A request for a whole answer."""
    return a_request("abc", streams=False).changed(**more)


def asked(*workers: Fake) -> list[int]:
    return [len(worker.calls) for worker in workers]


# ---- the order


async def test_the_first_of_the_order_answers_alone() -> None:
    """Nobody else is asked, and only its load counts."""
    first, second = Answers(200, WHOLE), Answers(200, WHOLE)
    trial = Trial(a_model(first, second))
    answer = await trial.run()

    assert WHOLE == answer.first
    assert [1, 0] == asked(first, second)
    assert {"a": 1, "b": 0} == trial.loads
    assert {"a": 0, "b": 0} == in_flight(trial.model)
    assert ("a", 1) == (trial.exchange.backend, trial.exchange.attempts)


async def test_the_next_of_the_order_answers_when_the_first_refuses() -> None:
    """The booking goes along: the load is where the request is."""
    workers = Refuses(), BreaksAfter(0), Answers(200, WHOLE), Answers(200, WHOLE)
    trial = Trial(a_model(*workers))
    await trial.run()

    assert [1, 1, 1, 0] == asked(*workers)
    assert {"a": 0, "b": 0, "c": 1, "d": 0} == trial.loads
    assert ("c", 3) == (trial.exchange.backend, trial.exchange.attempts)


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 504, 599])
async def test_statuses_that_are_the_workers_fault_move_on(status: int) -> None:
    """The next worker may do better; the reply that is of no use is closed."""
    workers = Answers(status, b'{"message":"no"}'), Answers(200, WHOLE)
    answer = await Trial(a_model(*workers)).run()

    assert 200 == answer.reply.status
    assert [1, 1] == asked(*workers)
    assert workers[0].replies[0].closed


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
async def test_statuses_that_are_the_callers_fault_do_not(status: int, streams: bool) -> None:
    """Every worker would say the same; its words are passed on as they are."""
    workers = Answers(status, b'{"error":', b'{"message":"no"}}'), Answers(200, WHOLE)
    answer = await Trial(a_model(*workers), streams=streams).run()

    assert (status, b'{"error":{"message":"no"}}', None) == (answer.reply.status, answer.first, answer.tail)
    assert [1, 0] == asked(*workers)


async def test_an_error_in_another_shape_is_put_into_ours() -> None:
    """SGLang and Dynamo tell it flat, where OpenAI's SDKs would find nothing."""
    answer = await Trial(a_model(Answers(400, b'{"object":"error","message":"too long","code":400}'))).run()

    told = {"message": "too long", "type": "invalid_request_error", "param": None, "code": None}
    assert {"error": told} == json.loads(answer.first)
    assert [(b"content-type", b"application/json")] == answer.headers


async def test_what_described_the_body_goes_with_it() -> None:
    """Another body in its place has another length, type and digest; the rest of the headers stays."""
    stale = [(b"content-type", b"text/html"), (b"content-length", b"6"), (b"etag", b'"1"'), (b"retry-after", b"9")]
    answer = await Trial(a_model(Answers(404, b"<html>", headers=stale))).run()

    assert "does not serve /v1/chat/completions" in json.loads(answer.first)["error"]["message"]
    assert [(b"retry-after", b"9"), (b"content-type", b"application/json")] == answer.headers


async def test_a_compressed_error_is_passed_on_as_it_came() -> None:
    """Its header says how to read it; here nobody can."""
    headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
    body = gzip.compress(b'{"message":"flat"}')
    answer = await Trial(a_model(Answers(400, body, headers=headers))).run()

    assert (body, headers) == (answer.first, answer.headers)

    failure = await Trial(a_model(Answers(500, body, headers=headers))).failure()

    assert "a answered 500: no reason given" == failure.message


async def test_no_worker_is_asked_twice() -> None:
    """When all have failed, all have been asked once, in their order."""
    workers = [Refuses(), Answers(500), Refuses(), Answers(503)]
    await Trial(a_model(*workers)).failure()

    assert [1, 1, 1, 1] == asked(*workers)


async def test_attempts_can_be_limited() -> None:
    """`most` counts the first one too."""
    workers = [Refuses(), Refuses(), Answers(200)]
    trial = Trial(a_model(*workers), most=2)
    await trial.failure()

    assert [1, 1, 0] == asked(*workers)
    assert 2 == trial.exchange.attempts


async def test_a_worker_that_left_since_it_was_ranked_is_passed_over() -> None:
    """That is no attempt, and leaves no booking behind."""
    workers = Answers(200), Answers(200)
    model = a_model(*workers)
    first, second = model.fleet.candidates(a_request("abc"), 100.0)
    dispatch = Dispatch(a_request("abc"), [first, second], None, "cold", "prefix_aware")
    model.fleet.set_workers([WorkerId("b")], 100.0)

    class Late(Turnstile):
        async def admit(self, request: Request) -> Dispatch:
            return dispatch

    model.turnstile = Late(Immediate(model.fleet, only(InGivenOrder())), model.fleet, clock=Clock())
    trial = Trial(model)
    await trial.run()

    assert [0, 1] == asked(*workers)
    assert ("b", 1) == (trial.exchange.backend, trial.exchange.attempts)
    assert {"b": 0} == in_flight(model)


async def test_a_booking_on_a_worker_without_connections_is_released() -> None:
    """The fleet may know of a worker a moment before the registry does."""
    worker = Answers(200)
    model = a_model(worker)
    for workers in (["z"], ["z", "a"]):
        model.fleet.set_workers([WorkerId(name) for name in workers], 100.0)
    trial = Trial(model)
    await trial.run()

    assert {"z": 0, "a": 1} == trial.loads
    assert {"z": 0, "a": 0} == in_flight(model)


async def test_the_hit_is_that_of_the_worker_that_answers() -> None:
    """Whoever failed before held more; the fallback holds nothing."""
    first, second = Answers(), Answers()
    model = a_model(first, second, fallback=Answers())
    book(model.fleet, a_request("abc"), 99.0, on=WorkerId("a"))
    book(model.fleet, a_request("ab"), 99.0, on=WorkerId("b"))
    hits = []
    for failing in ([], [first], [first, second]):
        for worker in failing:
            worker.status = 500
        trial = Trial(model)
        await trial.run()
        hits.append((trial.exchange.backend, trial.exchange.hit_blocks))

    assert [("a", 3), ("b", 2), ("w", 0)] == hits


async def test_the_regret_is_that_of_the_worker_that_answers() -> None:
    """How much earlier the best candidate should have begun: 0 where it answers; none of a fallback."""
    first, second = Answers(), Answers()
    model = a_model(first, second, fallback=Answers())
    model.fleet.release(book(model.fleet, a_request("abc"), 99.0, on=WorkerId("a")), Outcome(Ending.ANSWERED), 99.5)
    noted = []
    for failing in ([], [first], [first, second]):
        for worker in failing:
            worker.status = 500
        trial = Trial(model)
        await trial.run()
        predicted_s, regret_s = trial.exchange.predicted_ttft_s, trial.exchange.regret_s
        noted.append((trial.exchange.backend, predicted_s is None, None if regret_s is None else regret_s > 0.0))

    assert [("a", False, False), ("b", False, True), ("w", True, None)] == noted


async def test_the_time_in_the_queue_is_noted() -> None:
    """One that is released at once waits for nothing."""
    trial = Trial(a_model(Answers(200, WHOLE)))
    await trial.run()

    assert 0.0 == trial.exchange.queued_s


# ---- what failures teach


@pytest.mark.parametrize("status", [401, 403, 408, 500, 502, 503])
async def test_a_failure_counts_against_the_worker(status: int) -> None:
    """Its booking ends as failed: five of them in a row open the breaker."""
    fleet = WatchedFleet(2)
    model = a_model(Answers(status), Answers(200), fleet=fleet)
    await Trial(model).run(then=Attempts.answered)

    assert [("a", Ending.FAILED), ("b", Ending.ANSWERED)] == fleet.endings


@pytest.mark.parametrize("failing", [Refuses(), BreaksAfter(0), BreaksAfter(1, b"data: {"), Streams(), Streams(ERROR)])
async def test_a_broken_connection_counts_against_the_worker(failing: Fake) -> None:
    """Refused, cut before or within the first event, ended without one, or an error as the first one."""
    fleet = WatchedFleet(2)
    await Trial(a_model(failing, Streams(HELLO, DONE), fleet=fleet), streams=True).run()

    assert ("a", Ending.FAILED) == fleet.endings[0]


async def test_having_too_much_to_do_does_not() -> None:
    """429 moves on, but a full worker is not a sick one."""
    fleet = WatchedFleet(2)
    await Trial(a_model(Answers(429), Answers(200), fleet=fleet)).run(then=Attempts.answered)

    assert [("a", Ending.REFUSED), ("b", Ending.ANSWERED)] == fleet.endings


async def test_a_refused_caller_does_not() -> None:
    """400 counts neither for nor against the worker."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Answers(400), fleet=fleet))
    await trial.run(then=Attempts.answered)

    assert [("a", Ending.REFUSED)] == fleet.endings
    assert "Refused" == trial.exchange.error


async def test_an_answer_teaches_what_it_cost() -> None:
    """The engine's own counts go to the fleet with the release, and to the exchange."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Answers(200, WHOLE), fleet=fleet))
    await trial.run(then=Attempts.answered)

    assert [Outcome(Ending.ANSWERED, 7, None, 2)] == fleet.outcomes
    assert Usage(7, 2) == trial.exchange.usage
    assert trial.exchange.error is None


async def test_what_is_not_said_to_be_answered_was_aborted() -> None:
    """So it is when the caller goes away, or the gateway itself fails."""
    fleet = WatchedFleet(1)
    await Trial(a_model(Answers(200, WHOLE), fleet=fleet)).run()

    assert [Outcome(Ending.ABORTED)] == fleet.outcomes


async def test_a_release_lets_the_next_request_through() -> None:
    """The turnstile is turned after every booking that ended, also a failed one."""
    model = a_model(Answers(500), Answers(200))
    turns: list[dict[str, int]] = []

    class Counted(Turnstile):
        def turn(self) -> None:
            turns.append(in_flight(model))

    model.turnstile = Counted(Immediate(model.fleet, only(InGivenOrder())), model.fleet, clock=Clock())
    await Trial(model).run()

    assert [{"a": 0, "b": 0}, {"a": 0, "b": 0}] == turns


# ---- when all have failed


async def test_the_last_error_status_is_told_with_the_workers_words() -> None:
    """The caller learns what the worker said, in one line of bounded length."""
    workers = Answers(503, b"busy"), Answers(500, b'{"error":{"message":"CUDA\\nis gone"}}')
    failure = await Trial(a_model(*workers)).failure()

    assert isinstance(failure, UpstreamRefused)
    assert (500, "b answered 500: CUDA is gone", None) == (failure.status, failure.message, failure.retry_after_s)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"nested"}}', "nested"),
        (b'{"error":"plain"}', "plain"),
        (b'{"object":"error","message":"flat"}', "flat"),
        (b'{"error":{"code":7}}', "no reason given"),
        (b'{"message":""}', "no reason given"),
        (b'{"message":7}', "no reason given"),
        (b"<html>", "no reason given"),
        (b"\xff", "no reason given"),
        (b"[" * 100_000, "no reason given"),
        (b'{"message":"' + b"x" * 600 + b'"}', "x" * 500),
    ],
)
async def test_the_words_of_every_engine_are_understood(body: bytes, words: str) -> None:
    """vLLM nests them, SGLang and Dynamo do not; a proxy in between speaks HTML."""
    failure = await Trial(a_model(Answers(500, body))).failure()

    assert f"a answered 500: {words}" == failure.message


@pytest.mark.parametrize(("status", "retry_after_s"), [(503, 2.0), (429, 2.0), (500, None), (408, None)])
async def test_a_busy_fleet_says_when_to_come_back(status: int, retry_after_s: float | None) -> None:
    """Where the fault passes by itself, and only there."""
    failure = await Trial(a_model(Answers(status))).failure()

    assert (status, retry_after_s) == (failure.status, failure.retry_after_s)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_gateway_is_not_the_callers_fault(status: int) -> None:
    """Told on, the status would send the caller looking for a fault in its own key."""
    failure = await Trial(a_model(Answers(status))).failure()

    assert 502 == failure.status
    assert f"a answered {status}: no reason given" == failure.message


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (Refuses(), "b refused the connection"),
        (BreaksAfter(0), "the connection was cut"),
        (Raises(UpstreamTimeout("b is slow", phase="first_byte")), "b is slow"),
    ],
)
async def test_an_unreachable_fleet_is_503_with_retry_after(last: Fake, why: str) -> None:
    """The last failure is named."""
    failure = await Trial(a_model(Refuses(), last)).failure()

    assert isinstance(failure, NoWorker)
    assert (503, 2.0) == (failure.status, failure.retry_after_s)
    assert f"No worker for 'tiny' could be reached: {why}" == failure.message


async def test_an_empty_fleet_is_503_with_retry_after() -> None:
    """Nobody is up: no attempt was made, and what is wrong with the workers is named."""
    trial = Trial(a_model())
    failure = await trial.failure()

    assert (503, 2.0, "No worker for 'tiny' could be reached: there are no workers yet") == (
        failure.status,
        failure.retry_after_s,
        failure.message,
    )
    assert (0, None) == (trial.exchange.attempts, trial.exchange.backend)


# ---- the fallback


def bedrock(fallback: Fake) -> Fake:
    fallback.id = "bedrock:claude"
    return fallback


async def test_the_fallback_answers_after_all_workers() -> None:
    """Each of them was asked first; the answer counts as the fallback's."""
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


async def test_the_fallback_rests_while_a_worker_answers() -> None:
    """Also if what the worker says is that the caller is wrong."""
    fallback = bedrock(Answers(200))
    trial = Trial(a_model(Refuses(), Answers(400), fallback=fallback))
    await trial.run()

    assert [0] == asked(fallback)
    assert not trial.exchange.fell_back


async def test_the_fallback_alone_can_serve() -> None:
    """A stream of its has a first byte, though there is no booking that could be told."""
    trial = Trial(a_model(fallback=bedrock(Streams(HELLO, DONE))), streams=True)
    answer = await trial.run()

    assert HELLO == answer.first
    assert 100.0 == trial.exchange.first_byte


async def test_the_only_backend_is_asked_as_often_as_the_last_worker() -> None:
    """A model without workers waits for its fallback, as others do for a worker."""
    fallback = bedrock(Answers(503))
    trial = Trial(a_model(fallback=fallback), most=2, wait_s=60.0)
    trial.model.has_fleet = False
    failure = await trial.failure()

    assert [2] == asked(fallback)
    assert 503 == failure.status


async def test_what_is_too_long_for_the_only_backend_is_the_callers_fault() -> None:
    """There is nobody with more room."""
    body = b'{"error":{"message":"maximum context length is 8192 tokens","code":400}}'
    trial = Trial(a_model(fallback=bedrock(Answers(400, body))))
    trial.model.has_fleet = False
    failure = await trial.failure()

    assert (400, "context_length_exceeded", None) == (failure.status, failure.code, failure.retry_after_s)


async def test_the_wait_that_the_fallback_names_reaches_the_caller() -> None:
    """Where nobody else can answer."""
    trial = Trial(a_model(fallback=bedrock(Answers(429, headers=[(b"retry-after", b"41")]))))
    trial.model.has_fleet = False
    failure = await trial.failure()

    assert (503, 41.0) == (failure.status, failure.retry_after_s)


async def test_a_request_that_the_fallback_cannot_serve_is_503() -> None:
    """A worker would have served it: that none is there is not the caller's fault."""
    fallback = bedrock(Raises(InvalidField("'n' must be 1", param="n")))
    trial = Trial(a_model(Refuses(), fallback=fallback))
    failure = await trial.failure()

    assert (503, 2.0) == (failure.status, failure.retry_after_s)
    assert "'n' must be 1" in failure.message
    assert not trial.exchange.fell_back


@pytest.mark.parametrize("fallback", [Refuses(), Answers(500), BreaksAfter(0)])
async def test_when_the_fallback_fails_too_the_fleets_failure_is_told(fallback: Fake) -> None:
    """That is what the operator has to mend first."""
    failure = await Trial(a_model(Answers(503, b'{"message":"busy"}'), fallback=bedrock(fallback))).failure()

    assert (503, "a answered 503: busy") == (failure.status, failure.message)
    assert all(reply.closed for reply in fallback.replies)


async def test_when_everything_fails_it_is_worth_coming_again() -> None:
    """Also where the workers' own status says nothing of that."""
    failure = await Trial(a_model(Answers(500, b'{"message":"no"}'), fallback=bedrock(Answers(500)))).failure()

    assert (503, 2.0, "a answered 500: no") == (failure.status, failure.retry_after_s, failure.message)


async def test_who_may_not_fall_back_does_not() -> None:
    fallback = bedrock(Answers(200, WHOLE))
    await Trial(a_model(Refuses(), fallback=fallback), need=None).failure()

    assert [0] == asked(fallback)


async def test_fallbacks_are_asked_in_their_order() -> None:
    """Until one answers; that one's kind and price count."""
    first, second, third = Answers(500), Answers(200, WHOLE), Answers(200, WHOLE)
    model = a_model(Refuses())
    price = Price(1e-6, 1e-6, 2e-6)
    model.cascade = a_cascade(first, second, third, price=price)
    trial = Trial(model)
    await trial.run()

    assert [1, 1, 0] == asked(first, second, third)
    assert "bedrock" == trial.exchange.served_by
    assert price is trial.exchange.price


async def test_what_a_fallback_was_asked_for_is_counted_by_how_it_ended() -> None:
    """Also of a caller that went away, and of a request that it could not serve."""
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
        counts.append(dict(model.cascade.counts.requests))

    assert [
        {("w", "answered"): 1},
        {("w", "left"): 1},
        {("w", "failed"): 1},
        {("w", "unused"): 1},
    ] == counts


async def test_a_request_that_is_too_long_for_the_workers_goes_to_a_fallback_first() -> None:
    """Its prompt and output are known to need more than they take; if no fallback takes it they shall say so."""
    worker, fallback = Answers(200, WHOLE), bedrock(Answers(200, WHOLE))
    model = a_model(worker, fallback=fallback)
    model.context_tokens = 25
    await Trial(model).run()

    assert [0, 1] == asked(worker, fallback)

    model.cascade = a_cascade(Answers(500))
    await Trial(model).run()

    assert [1, 1] == asked(worker, fallback)


class Spills(Immediate):
    """Refuses whatever may spill."""

    def poll(self, now: float) -> list[Dispatch]:
        self.spilled = [request for request, _ in self._submitted if request.spill_in_s is not None]
        self._submitted = [each for each in self._submitted if each[0].spill_in_s is None]
        return super().poll(now)

    def refused(self) -> list[Refusal]:
        return [Refusal(request, "spill", 9.0, 1.0) for request in self.spilled]


@pytest.mark.parametrize(("fallback", "expected"), [(Answers(200, WHOLE), [0, 1]), (Answers(500), [1, 1])])
async def test_a_request_that_would_wait_too_long_goes_to_a_fallback(fallback: Answers, expected: list[int]) -> None:
    """And back to the workers, however long it takes, if no fallback helps."""
    worker = Answers(200, WHOLE)
    fleet = WatchedFleet(1)
    model = a_model(worker, fallback=fallback, fleet=fleet, dispatcher=Spills(fleet, only(InGivenOrder())))
    await Trial(model, request=asking(spill_in_s=1.0)).run()

    assert expected == asked(worker, fallback)


# ---- waiting for a worker


async def test_a_request_waits_for_a_worker_that_comes_up() -> None:
    """Before anything else is tried."""
    worker, fallback = Answers(200, WHOLE), bedrock(Answers(200, WHOLE))
    model = a_model(worker, fallback=fallback)
    model.fleet.set_up(WorkerId("a"), up=False)
    running = asyncio.ensure_future(Trial(model, wait_s=30.0).run())
    while not model.arrivals.waiting:
        await asyncio.sleep(0)
    model.fleet.set_up(WorkerId("a"), up=True)
    model.came_up()
    await running

    assert [1, 0] == asked(worker, fallback)


async def test_in_a_long_outage_not_every_request_waits_anew() -> None:
    """Where a fallback is ready: the first ones have waited for all."""
    fallback = bedrock(Answers(200, WHOLE))
    model = a_model(fallback=fallback)
    model.arrivals.deserted_since(asyncio.get_running_loop().time() - 60.0)
    await Trial(model, wait_s=60.0).run()

    assert [1] == asked(fallback)


async def test_a_request_that_no_fallback_takes_waits_all_the_same() -> None:
    """For a worker: nothing else can help it."""
    worker = Answers(200, WHOLE)
    model = a_model(worker, fallback=bedrock(Answers(500)))
    model.fleet.set_up(WorkerId("a"), up=False)
    model.arrivals.deserted_since(asyncio.get_running_loop().time() - 60.0)
    running = asyncio.ensure_future(Trial(model, wait_s=60.0).run())
    while not model.arrivals.waiting:
        await asyncio.sleep(0)
    model.fleet.set_up(WorkerId("a"), up=True)
    model.came_up()
    await running

    assert [1] == asked(worker)


async def test_nobody_waits_for_workers_that_are_there_and_refuse() -> None:
    """They would refuse again."""
    failure = await Trial(a_model(Answers(503), Answers(500)), wait_s=3600.0).failure()

    assert 500 == failure.status


async def test_a_worker_that_cannot_be_reached_is_down_until_a_check_finds_it() -> None:
    """Nobody else has to find that out; in its next life it is asked again."""
    worker = Refuses()
    model = a_model(worker, clock=Clock())
    running = asyncio.ensure_future(Trial(model, wait_s=30.0).run())
    while not model.arrivals.waiting:
        await asyncio.sleep(0)

    assert not model.fleet.worker(WorkerId("a")).is_up

    answering = Answers(200, WHOLE)
    answering.id = "a"
    model.workers = {WorkerId("a"): answering}
    model.fleet.set_up(WorkerId("a"), up=True)
    model.came_up()
    await running

    assert [1, 1] == asked(worker, answering)


async def test_who_waits_may_be_served_by_a_worker_that_the_settings_added() -> None:
    """A request goes on with the model that it began with, but not without that model's workers."""
    model = a_model()
    running = asyncio.ensure_future(Trial(model, wait_s=30.0).run())
    while not model.arrivals.waiting:
        await asyncio.sleep(0)
    worker = Answers(200, WHOLE)
    model.fleet.set_workers([WorkerId("a")], 100.0)
    model.succeeded_by(a_model(worker, fleet=model.fleet, former=model))
    model.came_up()
    await running

    assert [1] == asked(worker)


async def test_a_caller_with_less_patience_waits_no_longer_than_that() -> None:
    trial = Trial(a_model(), wait_s=3600.0, request=asking(deadline_s=0.01))

    assert isinstance(await trial.failure(), NoWorker)


async def test_a_request_that_breaks_workers_is_not_tried_on_all_of_them() -> None:
    """It may be the request that breaks them."""
    workers = [BreaksAfter(0) for _ in range(10)]
    await Trial(a_model(*workers)).failure()

    assert [1, 1, 1, 1, 1, 1, 1, 1, 0, 0] == asked(*workers)


async def test_a_worker_whose_breaker_is_open_is_asked_when_all_others_have_failed() -> None:
    """It is better than nobody."""
    fleet = WatchedFleet(2)
    for _ in range(5):
        booking = book(fleet, a_request("x"), 100.0, on=WorkerId("b"))
        fleet.release(booking, Outcome(Ending.FAILED), 100.0)
    failing, cut_off = Answers(500), Answers(200, WHOLE)
    await Trial(a_model(failing, cut_off, fleet=fleet)).run()

    assert [1, 1] == asked(failing, cut_off)


async def test_retries_stay_within_their_budget() -> None:
    """A share of all requests, so that a fleet that fails as a whole does not get every request several times.

    Where nobody could be reached nothing was sent: that does not count.
    """
    model = a_model(Answers(500), Answers(500), Answers(500), retry_budget=RetryBudget(share=0.0, floor_per_s=0.1))
    trial = Trial(model)
    failure = await trial.failure()

    assert (500, 2) == (failure.status, trial.exchange.attempts)

    unreachable = [Refuses(), Refuses(), Refuses()]
    await Trial(a_model(*unreachable, retry_budget=RetryBudget(share=0.0, floor_per_s=0.0))).failure()

    assert [1, 1, 1] == asked(*unreachable)


async def test_a_request_waits_until_the_retry_budget_has_room() -> None:
    """Rather than that it fails."""
    model = a_model(Answers(500), Answers(200, WHOLE), retry_budget=RetryBudget(share=0.0, floor_per_s=0.1))
    assert model.retry_budget.take(100.0)
    trial = Trial(model, wait_s=3600.0)
    running = asyncio.ensure_future(trial.run())
    while not model.arrivals.waiting:
        await asyncio.sleep(0)
    trial.clock.now = 200.0

    assert WHOLE == (await running).first


# ---- patience with a first byte


async def test_a_worker_that_hangs_is_left_after_the_predicted_time_and_a_margin() -> None:
    """Where somebody else is left; that one is given all the time that there is."""
    fleet = WatchedFleet(2)
    await Trial(a_model(Streams(HELLO, USAGE, DONE), fleet=fleet), streams=True).run(then=Attempts.answered)
    hanging, other = Hangs(), Streams(HELLO, DONE)
    await Trial(a_model(hanging, other, fleet=fleet), streams=True, margin_s=0.01).run()

    assert [True, False] == [patience is not None for patience in (*hanging.first_byte_s, *other.first_byte_s)]
    assert ("a", Ending.FAILED) == fleet.endings[-2]


async def test_nobody_is_cut_off_before_anything_was_learnt() -> None:
    """The first requests of a fleet say nothing of how long the next ones take."""
    worker = Streams(HELLO, DONE)
    await Trial(a_model(worker, Streams(HELLO, DONE)), streams=True).run()

    assert [None] == worker.first_byte_s


# ---- streams


async def test_a_stream_begins_with_its_first_event() -> None:
    """Half an event does not commit the status: it is kept until the rest has come."""
    trial = Trial(a_model(Streams(HELLO[:9], HELLO[9:20], HELLO[20:] + WORLD[:5], WORLD[5:], DONE)), streams=True)
    answer = await trial.run()

    assert HELLO == answer.first
    assert answer.tail is not None
    assert 100.0 == trial.exchange.first_byte


async def test_the_first_byte_ends_the_prefill() -> None:
    """The fleet is told when it came, so that it can learn the worker's speed."""
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
    """Engines answer 200 before they know; nothing of it has gone downstream yet."""
    workers = failing, Streams(WORLD, DONE)
    answer = await Trial(a_model(*workers), streams=True).run()

    assert WORLD == answer.first
    assert [1, 1] == asked(*workers)
    assert all(reply.closed for reply in failing.replies)


async def test_an_error_event_of_the_last_worker_is_told() -> None:
    """Its words stand in the error."""
    failure_trial = Trial(a_model(Streams(ERROR)), streams=True)
    failure = await failure_trial.failure()

    assert isinstance(failure, NoWorker)
    assert "a answered with an error event: out of memory" in failure.message


async def test_announcements_without_end_are_not_kept_for_ever() -> None:
    """After 64 KiB of them the worker is taken at its word."""
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
async def test_an_engine_that_gave_up_has_not_answered(failing: Fake, streams: bool) -> None:
    """A vLLM that stops, or falls asleep, says 200 and finish_reason abort, as if all were well."""
    fleet = WatchedFleet(2)
    spare = Streams(WORLD, DONE) if streams else Answers(200, WHOLE)
    answer = await Trial(a_model(failing, spare, fleet=fleet), streams=streams).run()

    assert (WORLD if streams else WHOLE) == answer.first
    assert ("a", Ending.FAILED) == fleet.endings[0]


@pytest.mark.parametrize("body", [b'{"choices":[{"message":{"content":"\\"abort\\""}}]}', b'{"token":"abort"}'])
async def test_an_answer_may_speak_of_abort(body: bytes) -> None:
    """Only the reason to finish counts."""
    assert body == (await Trial(a_model(Answers(200, body))).run()).first


async def test_an_engine_that_gives_up_within_the_stream_is_a_failure() -> None:
    """What it said is with the caller already."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, GIVEN_UP, DONE), fleet=fleet), streams=True)

    def relayed(attempts: Attempts, answer: Attempt) -> None:
        assert answer.tail is not None
        answer.tail.feed(GIVEN_UP + DONE)
        attempts.answered(answer)

    await trial.run(then=relayed)

    assert [("a", Ending.FAILED)] == fleet.endings


TOO_LONG = b'data: {"error":{"message":"too long","type":"BadRequestError","code":400}}\n\n'


async def test_a_stream_that_begins_with_the_callers_fault_is_a_plain_refusal() -> None:
    """SGLang finds only after its 200 that a prompt is too long: every worker would, and none of them is sick."""
    fleet = WatchedFleet(2)
    workers = Streams(TOO_LONG, DONE), Streams(WORLD, DONE)
    trial = Trial(a_model(*workers, fleet=fleet), streams=True)
    answer = await trial.run(then=Attempts.answered)

    told = {"message": "too long", "type": "BadRequestError", "param": None, "code": None}
    assert (400, {"error": told}, None) == (answer.status, json.loads(answer.first), answer.tail)
    assert [(b"content-type", b"application/json")] == answer.headers
    assert [1, 0] == asked(*workers)
    assert [("a", Ending.REFUSED)] == fleet.endings
    assert "Refused" == trial.exchange.error


@pytest.mark.parametrize(
    "code", [b"401", b"408", b"429", b"500", b'"context_length_exceeded"', b'"' + b"4" * 9_999 + b'"', b"4e2", b"null"]
)
async def test_other_codes_are_the_workers_fault(code: bytes) -> None:
    """The next one may do better, or at least nobody said that it will not."""
    workers = Streams(TOO_LONG.replace(b"400", code)), Streams(WORLD, DONE)
    answer = await Trial(a_model(*workers), streams=True).run()

    assert (WORLD, 200) == (answer.first, answer.status)


async def test_the_callers_fault_within_the_stream_counts_against_nobody() -> None:
    """It has been passed on; what it costs is the caller's."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, TOO_LONG, DONE), fleet=fleet), streams=True)

    def relayed(attempts: Attempts, answer: Attempt) -> None:
        assert answer.tail is not None
        answer.tail.feed(TOO_LONG + DONE)
        attempts.answered(answer)

    await trial.run(then=relayed)

    assert ([("a", Ending.REFUSED)], "Refused") == (fleet.endings, trial.exchange.error)


async def test_an_error_inside_the_stream_is_a_failure() -> None:
    """It has been passed on; the worker is to blame, and what it claims to have used does not count."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Streams(HELLO, ERROR, USAGE, DONE), fleet=fleet), streams=True)

    def relayed(attempts: Attempts, answer: Attempt) -> None:
        assert answer.tail is not None
        answer.tail.feed(ERROR + USAGE + DONE)
        attempts.answered(answer)

    await trial.run(then=relayed)

    assert [Outcome(Ending.FAILED)] == fleet.outcomes
    assert (ReplyBroken.__name__, None) == (trial.exchange.error, trial.exchange.usage)


async def test_a_stream_that_broke_is_a_failure() -> None:
    """Whoever relays it says so."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(BreaksAfter(1, HELLO), fleet=fleet), streams=True)
    await trial.run(then=lambda attempts, _: attempts.broken(ReplyBroken("cut")))

    assert [("a", Ending.FAILED)] == fleet.endings


async def test_the_usage_of_a_stream_is_taken_from_its_tail() -> None:
    """It comes after the first byte, so only the end knows it."""
    trial = Trial(a_model(Streams(HELLO + USAGE + DONE)), streams=True)
    await trial.run(then=Attempts.answered)

    assert Usage(7, 2) == trial.exchange.usage


# ---- whole answers


async def test_a_whole_answer_that_breaks_moves_on() -> None:
    """Nothing goes downstream before it is complete, so the caller does not notice."""
    workers = BreaksAfter(2, b'{"choi', b'ces":', b"[]}"), Answers(200, b"{", b"}")
    answer = await Trial(a_model(*workers)).run()

    assert b"{}" == answer.first
    assert workers[0].replies[0].closed


async def test_an_answer_without_a_body_is_an_answer() -> None:
    """Whatever it is worth."""
    answer = await Trial(a_model(Answers(204, b""))).run()

    assert (204, b"") == (answer.reply.status, answer.first)


async def test_an_answer_larger_than_any_answer_is_a_failure() -> None:
    """64 MiB are kept at most."""
    piece = bytes(WHOLE_ANSWER_BYTES // 4)
    fits, too_large = Answers(200, *[piece] * 4), Answers(200, *[piece] * 4, b"x")

    assert WHOLE_ANSWER_BYTES == len((await Trial(a_model(fits)).run()).first)
    assert "larger than 67108864 bytes" in (await Trial(a_model(too_large)).failure()).message


# ---- everything is given back

BEHAVIOURS: dict[str, Callable[[], Fake]] = {
    "answers": lambda: Answers(200, WHOLE),
    "answers 400": lambda: Answers(400),
    "answers 429": lambda: Answers(429),
    "answers 500": lambda: Answers(500),
    "refuses": Refuses,
    "breaks at once": lambda: BreaksAfter(0),
    "breaks in the first event": lambda: BreaksAfter(1, HELLO[:5]),
    "breaks in the stream": lambda: BreaksAfter(1, HELLO),
    "streams": lambda: Streams(HELLO, USAGE, DONE),
    "streams an error": lambda: Streams(ERROR),
    "streams nothing": Streams,
    "fails in a way nobody foresaw": lambda: Raises(RuntimeError("?")),
    "cannot serve it": lambda: Raises(InvalidField("no", param="n")),
}
WAYS_TO_END: dict[str, Callable[[Attempts, Attempt], object]] = {
    "answered": Attempts.answered,
    "broken": lambda attempts, _: attempts.broken(ReplyBroken("cut")),
    "left": lambda _, __: None,
}


@given(
    st.lists(st.lists(st.sampled_from(sorted(BEHAVIOURS)), max_size=4), min_size=1, max_size=3),
    st.sampled_from([None, *sorted(BEHAVIOURS)]),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(sorted(WAYS_TO_END)),
)
def test_bookings_and_replies_are_given_back_once_whatever_happens(
    requests: Sequence[Sequence[str]], fallback: str | None, streams: bool, most: int | None, way: str
) -> None:
    """Whichever ways the workers find to fail, and however it ends: no load stays, no reply is left open."""
    asyncio.run(_given_back(requests, fallback, streams=streams, most=most, way=way))


async def _given_back(
    requests: Sequence[Sequence[str]], fallback: str | None, *, streams: bool, most: int | None, way: str
) -> None:
    for behaviours in requests:
        workers = [BEHAVIOURS[behaviour]() for behaviour in behaviours]
        last = BEHAVIOURS[fallback]() if fallback else None
        fleet = WatchedFleet(len(workers))
        trial = Trial(a_model(*workers, fallback=last, fleet=fleet), streams=streams, most=most)
        with contextlib.suppress(GatewayError, RuntimeError):
            await trial.run(then=WAYS_TO_END[way])

        assert dict.fromkeys("abcd"[: len(workers)], 0) == in_flight(trial.model)
        assert fleet.booked == fleet.released
        assert sum(trial.loads.values()) <= 1
        assert all(reply.closed for worker in workers for reply in worker.replies)
        assert last is None or all(reply.closed for reply in last.replies)
        assert max(asked(*workers), default=0) <= 1


@pytest.mark.parametrize("worker", [Hangs(), Hangs(HELLO[:5])])
async def test_a_cancellation_while_waiting_gives_everything_back(worker: Hangs) -> None:
    """Before a status, or before the first event is complete."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(worker, fleet=fleet), streams=True)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(trial.run())
        await worker.hanging.wait()
        running.cancel()

    assert running.cancelled()
    assert [("a", Ending.ABORTED)] == fleet.endings
    assert {"a": 0} == in_flight(trial.model)
    assert worker.given_up
    assert all(reply.closed for reply in worker.replies)


# ---- adapters


@contextlib.asynccontextmanager
async def adapted(
    *workers: AnsweringWorker, adapter: Adapter = POET, listed: bool = True
) -> AsyncIterator[tuple[Model, WatchedFleet]]:
    """A model that is *adapter*; unless it is *listed* which worker has it nobody knows."""
    fleet = WatchedFleet(len(workers))
    model = a_model(*workers, fleet=fleet)
    subject = a_subject(adapter, *workers, fleet=fleet)
    shelf = a_shelf(subject)
    if listed:
        know(shelf, {worker: worker.adapters for worker in workers})
    model.adapter = Placement(shelf, subject, "poet")
    async with running(shelf):
        yield model, fleet


async def test_an_adapter_is_loaded_before_the_request_is_sent() -> None:
    """The time that takes is none of its prefill: it is booked anew when it can be sent."""
    a = AnsweringWorker("a")
    async with adapted(a) as (model, fleet):
        trial = Trial(model)
        answer = await trial.run()

    assert (200, 1) == (answer.status, trial.exchange.attempts)
    assert ["load", "request"] == a.was_asked
    assert [("a", Ending.ABORTED), ("a", Ending.ABORTED)] == fleet.endings
    assert {"a": 1} == trial.loads


async def test_a_worker_that_refuses_for_want_of_it_loads_it_and_is_asked_again() -> None:
    """Nobody knew that it had lost it; the caller hears nothing of that, and its health is not in doubt."""
    a = AnsweringWorker("a")
    async with adapted(a, listed=False) as (model, fleet):
        trial = Trial(model)
        answer = await trial.run()

    assert (200, 2) == (answer.status, trial.exchange.attempts)
    assert ["request", "load", "request"] == a.was_asked
    assert not any(worker.breaker.is_open for worker in fleet)
    assert all(reply.closed for reply in a.replies)


async def test_where_it_cannot_be_loaded_the_next_worker_answers() -> None:
    """It was not loaded, or may not be; that costs no try and no retry."""
    for adapter, fails in ((POET, 500), (Adapter("poet", "tiny"), None)):
        a, b = AnsweringWorker("a", fails=fails), AnsweringWorker("b", "poet")
        async with adapted(a, b, adapter=adapter) as (model, _):
            trial = Trial(model)
            answer = await trial.run()

        assert (200, "b") == (answer.status, trial.exchange.backend)


async def test_a_worker_that_loses_what_it_loads_is_given_up() -> None:
    """Once is enough: the next one is asked, and where there is none, nobody could be reached."""
    a = AnsweringWorker("a")
    a.forgets = True
    async with adapted(a) as (model, _):
        failure = await Trial(model).failure()

    assert isinstance(failure, NoWorker)
    assert "a does not have the adapter" in str(failure)
    assert ["load", "request", "load", "request"] == a.was_asked


async def test_a_worker_that_is_drained_while_it_loads_is_passed_over() -> None:
    """It has the adapter by then, and is to have no more requests."""
    a, b = AnsweringWorker("a", waits=True), AnsweringWorker("b", "poet")
    async with adapted(a, b) as (model, fleet):
        trial = Trial(model)
        running_trial = asyncio.ensure_future(trial.run())
        async with asyncio.timeout(10):
            while not a.calls:
                await asyncio.sleep(0)
        fleet.set_draining(WorkerId("a"), draining=True)
        a.released.set()
        answer = await running_trial

    assert (200, "b") == (answer.status, trial.exchange.backend)
    assert ["load"] == a.was_asked


async def test_an_answer_that_has_nothing_to_do_with_the_adapter_is_the_callers() -> None:
    """Its status alone says nothing of that."""
    a = Answers(400, b'{"error":{"message":"max_tokens of poet is too large","code":400}}')
    async with adapted(AnsweringWorker("a", "poet")) as (with_adapter, _):
        model = a_model(a)
        model.adapter = with_adapter.adapter
        answer = await Trial(model).run()

    assert (400, 1) == (answer.status, len(a.calls))
