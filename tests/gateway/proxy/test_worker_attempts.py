"""The attempts of one request at workers."""

import asyncio
import gzip
import json

import pytest

from cache_index import WorkerId
from gateway.models.dispatch_queue import DispatchQueue
from gateway.protocol.errors import NoWorker, UpstreamRefused, UpstreamTimeout
from gateway.protocol.usage import Usage
from gateway.proxy.attempts import Attempts
from routing.booking import Ending, Outcome
from routing.dispatcher import Dispatch, Immediate
from routing.request import Request
from routing.retry_budget import RetryBudget
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, Streams
from tests.gateway.examples import (
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WHOLE,
    Clock,
    InGivenOrder,
    WatchedFleet,
    a_model,
    in_flight,
)
from tests.gateway.proxy.trial import Trial, asked, asking, bedrock
from tests.routing.examples import a_request, book, only

pytestmark = pytest.mark.interpreted

# ---- the order


async def test_the_first_of_the_order_answers_alone() -> None:
    """No other worker is asked, and only its load counts."""
    first, second = Answers(200, WHOLE), Answers(200, WHOLE)
    trial = Trial(a_model(first, second))
    answer = await trial.run()

    assert WHOLE == answer.first
    assert [1, 0] == asked(first, second)
    assert {"a": 1, "b": 0} == trial.loads
    assert {"a": 0, "b": 0} == in_flight(trial.model)
    assert ("a", 1) == (trial.exchange.backend, trial.exchange.attempts)


async def test_the_next_of_the_order_answers_when_the_first_refuses() -> None:
    """The slot moves with the request."""
    workers = Refuses(), BreaksAfter(0), Answers(200, WHOLE), Answers(200, WHOLE)
    trial = Trial(a_model(*workers))
    await trial.run()

    assert [1, 1, 1, 0] == asked(*workers)
    assert {"a": 0, "b": 0, "c": 1, "d": 0} == trial.loads
    assert ("c", 3) == (trial.exchange.backend, trial.exchange.attempts)


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 504, 599])
async def test_statuses_that_blame_the_worker_move_on(status: int) -> None:
    """The next worker may do better; the useless reply is closed."""
    workers = Answers(status, b'{"message":"no"}'), Answers(200, WHOLE)
    answer = await Trial(a_model(*workers)).run()

    assert 200 == answer.reply.status
    assert [1, 1] == asked(*workers)
    assert workers[0].replies[0].closed


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
async def test_statuses_that_blame_the_caller_do_not_move_on(status: int, streams: bool) -> None:
    """Every worker would answer the same; the message is passed on unchanged."""
    workers = Answers(status, b'{"error":', b'{"message":"no"}}'), Answers(200, WHOLE)
    answer = await Trial(a_model(*workers), streams=streams).run()

    assert (status, b'{"error":{"message":"no"}}', None) == (answer.reply.status, answer.first, answer.observer)
    assert [1, 0] == asked(*workers)


async def test_an_error_in_another_shape_gets_openais_shape() -> None:
    """SGLang and Dynamo send a flat error, which OpenAI's SDKs do not read."""
    answer = await Trial(a_model(Answers(400, b'{"object":"error","message":"too long","code":400}'))).run()

    result = {"message": "too long", "type": "invalid_request_error", "param": None, "code": None}
    assert {"error": result} == json.loads(answer.first)
    assert [(b"content-type", b"application/json")] == answer.headers


async def test_headers_about_a_replaced_body_are_removed() -> None:
    """The new body has its own length and type; the other headers stay."""
    stale = [(b"content-type", b"text/html"), (b"content-length", b"6"), (b"etag", b'"1"'), (b"retry-after", b"9")]
    answer = await Trial(a_model(Answers(404, b"<html>", headers=stale))).run()

    assert "does not serve /v1/chat/completions" in json.loads(answer.first)["error"]["message"]
    assert [(b"retry-after", b"9"), (b"content-type", b"application/json")] == answer.headers


async def test_a_compressed_error_is_passed_on_unchanged() -> None:
    """The gateway does not decompress it."""
    headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
    body = gzip.compress(b'{"message":"flat"}')
    answer = await Trial(a_model(Answers(400, body, headers=headers))).run()

    assert (body, headers) == (answer.first, answer.headers)

    failure = await Trial(a_model(Answers(500, body, headers=headers))).failure()

    assert "a answered 500: no reason given" == failure.message


async def test_no_worker_is_asked_twice() -> None:
    """Each worker was asked once, in order, when all have failed."""
    workers = [Refuses(), Answers(500), Refuses(), Answers(503)]
    await Trial(a_model(*workers)).failure()

    assert [1, 1, 1, 1] == asked(*workers)


async def test_attempts_can_be_limited() -> None:
    """The limit includes the first attempt."""
    workers = [Refuses(), Refuses(), Answers(200)]
    trial = Trial(a_model(*workers), most=2)
    await trial.failure()

    assert [1, 1, 0] == asked(*workers)
    assert 2 == trial.exchange.attempts


async def test_a_worker_that_left_after_the_ranking_is_skipped() -> None:
    """It counts as no attempt, and no slot is left behind."""
    workers = Answers(200), Answers(200)
    model = a_model(*workers)
    first, second = model.fleet.candidates(a_request("abc"), 100.0)
    dispatch = Dispatch(a_request("abc"), [first, second], None, "cold", "prefix_aware")
    model.fleet.set_workers([WorkerId("b")], 100.0)

    class Late(DispatchQueue):
        async def admit(self, request: Request) -> Dispatch:
            return dispatch

    model.dispatch_queue = Late(Immediate(model.fleet, only(InGivenOrder())), model.fleet, clock=Clock())
    trial = Trial(model)
    await trial.run()

    assert [0, 1] == asked(*workers)
    assert ("b", 1) == (trial.exchange.backend, trial.exchange.attempts)
    assert {"b": 0} == in_flight(model)


async def test_a_slot_on_a_worker_without_connections_is_released() -> None:
    """The fleet may know a worker a moment before the registry does."""
    worker = Answers(200)
    model = a_model(worker)
    for workers in (["z"], ["z", "a"]):
        model.fleet.set_workers([WorkerId(name) for name in workers], 100.0)
    trial = Trial(model)
    await trial.run()

    assert {"z": 0, "a": 1} == trial.loads
    assert {"z": 0, "a": 0} == in_flight(model)


async def test_the_hit_is_that_of_the_worker_that_answers() -> None:
    """A worker that failed before may have held more; a fallback holds nothing."""
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
    """It is the distance to the best candidate, 0 for that one, and None for a fallback."""
    first, second = Answers(), Answers()
    model = a_model(first, second, fallback=Answers())
    model.fleet.bookings.release(
        book(model.fleet, a_request("abc"), 99.0, on=WorkerId("a")), Outcome(Ending.ANSWERED), 99.5
    )
    noted = []
    for failing in ([], [first], [first, second]):
        for worker in failing:
            worker.status = 500
        trial = Trial(model)
        await trial.run()
        predicted_s, regret_s = trial.exchange.predicted_ttft_s, trial.exchange.regret_s
        noted.append((trial.exchange.backend, predicted_s is None, None if regret_s is None else regret_s > 0.0))

    assert [("a", False, False), ("b", False, True), ("w", True, None)] == noted


async def test_the_time_in_the_queue_is_recorded() -> None:
    """A request that is released at once has waited 0 s."""
    trial = Trial(a_model(Answers(200, WHOLE)))
    await trial.run()

    assert 0.0 == trial.exchange.queued_s


# ---- what failures teach


@pytest.mark.parametrize("status", [401, 403, 408, 500, 502, 503])
async def test_a_failure_counts_against_the_worker(status: int) -> None:
    """Its slot ends as failed: five of them in a row open the breaker."""
    fleet = WatchedFleet(2)
    model = a_model(Answers(status), Answers(200), fleet=fleet)
    await Trial(model).run(then=Attempts.answered)

    assert [("a", Ending.FAILED), ("b", Ending.ANSWERED)] == fleet.endings


@pytest.mark.parametrize("failing", [Refuses(), BreaksAfter(0), BreaksAfter(1, b"data: {"), Streams(), Streams(ERROR)])
async def test_a_broken_connection_counts_against_the_worker(failing: Fake) -> None:
    """Refused, cut before or within the first event, ended without one, or an error as the first event."""
    fleet = WatchedFleet(2)
    await Trial(a_model(failing, Streams(HELLO, DONE), fleet=fleet), streams=True).run()

    assert ("a", Ending.FAILED) == fleet.endings[0]


async def test_an_overload_does_not_count_against_the_worker() -> None:
    """429 moves on, but a full worker is healthy."""
    fleet = WatchedFleet(2)
    await Trial(a_model(Answers(429), Answers(200), fleet=fleet)).run(then=Attempts.answered)

    assert [("a", Ending.REFUSED), ("b", Ending.ANSWERED)] == fleet.endings


async def test_a_refused_caller_does_not_count_against_the_worker() -> None:
    """400 counts neither for nor against it."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Answers(400), fleet=fleet))
    await trial.run(then=Attempts.answered)

    assert [("a", Ending.REFUSED)] == fleet.endings
    assert "Refused" == trial.exchange.error


async def test_the_usage_of_an_answer_is_recorded() -> None:
    """The fleet gets the engine's counts with the release, and so does the exchange."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(Answers(200, WHOLE), fleet=fleet))
    await trial.run(then=Attempts.answered)

    assert [Outcome(Ending.ANSWERED, 7, None, 2)] == fleet.outcomes
    assert Usage(7, 2) == trial.exchange.usage
    assert trial.exchange.error is None


async def test_a_request_is_aborted_by_default() -> None:
    """It is aborted if the caller disconnects or the gateway fails."""
    fleet = WatchedFleet(1)
    await Trial(a_model(Answers(200, WHOLE), fleet=fleet)).run()

    assert [Outcome(Ending.ABORTED)] == fleet.outcomes


async def test_a_release_lets_the_next_request_through() -> None:
    """The queue is polled after every released slot, also after a failure."""
    model = a_model(Answers(500), Answers(200))
    turns: list[dict[str, int]] = []

    class Counted(DispatchQueue):
        def turn(self) -> None:
            turns.append(in_flight(model))

    model.dispatch_queue = Counted(Immediate(model.fleet, only(InGivenOrder())), model.fleet, clock=Clock())
    await Trial(model).run()

    assert [{"a": 0, "b": 0}, {"a": 0, "b": 0}] == turns


# ---- when all have failed


async def test_the_caller_gets_the_last_error_status_and_message() -> None:
    """The message is one line of bounded length."""
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
async def test_the_error_messages_of_all_engines_are_read(body: bytes, words: str) -> None:
    """vLLM nests them, SGLang and Dynamo do not; a proxy in between sends HTML."""
    failure = await Trial(a_model(Answers(500, body))).failure()

    assert f"a answered 500: {words}" == failure.message


@pytest.mark.parametrize(("status", "retry_after_s"), [(503, 2.0), (429, 2.0), (500, None), (408, None)])
async def test_an_overloaded_fleet_sends_retry_after(status: int, retry_after_s: float | None) -> None:
    """Only errors that pass by themselves have it."""
    failure = await Trial(a_model(Answers(status))).failure()

    assert (status, retry_after_s) == (failure.status, failure.retry_after_s)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_gateway_is_not_the_callers_fault(status: int) -> None:
    """With the worker's status, the caller would look for a fault in its own key."""
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
    """The message names the last failure."""
    failure = await Trial(a_model(Refuses(), last)).failure()

    assert isinstance(failure, NoWorker)
    assert (503, 2.0) == (failure.status, failure.retry_after_s)
    assert f"No worker of model 'tiny' answered: {why}" == failure.message


async def test_an_empty_fleet_is_503_with_retry_after() -> None:
    """No attempt was made; the message says what is wrong with the workers."""
    trial = Trial(a_model())
    failure = await trial.failure()

    assert (503, 2.0, "No worker of model 'tiny' answered: there are no workers yet") == (
        failure.status,
        failure.retry_after_s,
        failure.message,
    )
    assert (0, None) == (trial.exchange.attempts, trial.exchange.backend)


# ---- waiting for a worker


async def test_a_request_waits_for_a_worker_that_comes_up() -> None:
    """The wait comes before the fallbacks."""
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


async def test_the_wait_is_cut_short_in_a_long_outage() -> None:
    """A fallback is ready, and earlier requests have waited in full."""
    fallback = bedrock(Answers(200, WHOLE))
    model = a_model(fallback=fallback)
    model.arrivals.deserted_since(asyncio.get_running_loop().time() - 60.0)
    await Trial(model, wait_s=60.0).run()

    assert [1] == asked(fallback)


async def test_a_request_that_no_fallback_takes_waits_in_full() -> None:
    """Only a worker can answer it."""
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


async def test_there_is_no_wait_for_available_workers_that_failed() -> None:
    """They would fail again."""
    failure = await Trial(a_model(Answers(503), Answers(500)), wait_s=3600.0).failure()

    assert 500 == failure.status


async def test_an_unreachable_worker_is_down_until_a_check_succeeds() -> None:
    """Other requests skip it; after a restart it is asked again."""
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


async def test_a_waiting_request_may_use_a_worker_that_a_reload_added() -> None:
    """The request keeps its model, and gets that model's new workers."""
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


async def test_the_wait_ends_with_the_callers_deadline() -> None:
    trial = Trial(a_model(), wait_s=3600.0, request=asking(deadline_s=0.01))

    assert isinstance(await trial.failure(), NoWorker)


async def test_a_request_that_breaks_workers_is_not_tried_on_all_of_them() -> None:
    """The request itself may be what breaks them."""
    workers = [BreaksAfter(0) for _ in range(10)]
    await Trial(a_model(*workers)).failure()

    assert [1, 1, 1, 1, 1, 1, 1, 1, 0, 0] == asked(*workers)


async def test_a_worker_whose_breaker_is_open_is_asked_when_all_others_have_failed() -> None:
    """It may answer although its breaker is open."""
    fleet = WatchedFleet(2)
    for _ in range(5):
        booking = book(fleet, a_request("x"), 100.0, on=WorkerId("b"))
        fleet.bookings.release(booking, Outcome(Ending.FAILED), 100.0)
    failing, cut_off = Answers(500), Answers(200, WHOLE)
    await Trial(a_model(failing, cut_off, fleet=fleet)).run()

    assert [1, 1] == asked(failing, cut_off)


async def test_retries_stay_within_their_budget() -> None:
    """The budget is a share of all requests, so that an overload does not multiply them.

    Unreachable workers do not count.
    """
    model = a_model(Answers(500), Answers(500), Answers(500), retry_budget=RetryBudget(share=0.0, floor_per_s=0.1))
    trial = Trial(model)
    failure = await trial.failure()

    assert (500, 2) == (failure.status, trial.exchange.attempts)

    unreachable = [Refuses(), Refuses(), Refuses()]
    await Trial(a_model(*unreachable, retry_budget=RetryBudget(share=0.0, floor_per_s=0.0))).failure()

    assert [1, 1, 1] == asked(*unreachable)


async def test_a_request_waits_until_the_retry_budget_has_room() -> None:
    """Otherwise it would fail."""
    model = a_model(Answers(500), Answers(200, WHOLE), retry_budget=RetryBudget(share=0.0, floor_per_s=0.1))
    assert model.retry_budget.spend(100.0)
    trial = Trial(model, wait_s=3600.0)
    running = asyncio.ensure_future(trial.run())
    while not model.arrivals.waiting:
        await asyncio.sleep(0)
    trial.clock.now = 200.0

    assert WHOLE == (await running).first


# ---- patience with a first byte


async def test_a_worker_that_hangs_is_left_after_the_predicted_time_and_a_margin() -> None:
    """The last worker gets all the time that the timeouts allow."""
    fleet = WatchedFleet(2)
    await Trial(a_model(Streams(HELLO, USAGE, DONE), fleet=fleet), streams=True).run(then=Attempts.answered)
    hanging, other = Hangs(), Streams(HELLO, DONE)
    await Trial(a_model(hanging, other, fleet=fleet), streams=True, margin_s=0.01).run()

    assert [True, False] == [patience is not None for patience in (*hanging.first_byte_s, *other.first_byte_s)]
    assert ("a", Ending.FAILED) == fleet.endings[-2]


async def test_no_worker_is_cut_off_before_its_speed_is_known() -> None:
    """The first requests of a fleet have no prediction."""
    worker = Streams(HELLO, DONE)
    await Trial(a_model(worker, Streams(HELLO, DONE)), streams=True).run()

    assert [None] == worker.first_byte_s


async def test_the_decision_and_the_failures_are_kept_if_receipts_are() -> None:
    """In the order of the dispatch; the second worker answered."""
    trial = Trial(a_model(Refuses(), Answers(200)))
    trial.exchange.keeps_decision = True
    await trial.run()
    decision = trial.exchange.decision

    assert decision is not None
    assert ["a", "b"] == list(decision.workers)
    assert (("a", "ConnectFailed"),) == trial.exchange.failures


async def test_nothing_is_kept_without_receipts() -> None:
    trial = Trial(a_model(Refuses(), Answers(200)))
    await trial.run()

    assert (None, ()) == (trial.exchange.decision, trial.exchange.failures)
