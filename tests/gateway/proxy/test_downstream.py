"""The response to the caller, in ASGI messages."""

import asyncio

import pytest

from gateway.models.routes.route import RouteChoice
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import MalformedBody, NoWorker, ReplyBroken
from gateway.protocol.sse import ChunkObserver
from gateway.proxy.downstream import Downstream
from gateway.proxy.exchange import Exchange
from tests.gateway.asgi import Caller, Message
from tests.gateway.examples import an_exchange

CHAT = ENDPOINTS["/v1/chat/completions"]


def decided() -> Exchange:
    return an_exchange(backend="w1", strategy="prefix_aware", hit_blocks=3, hit_tokens=48.9)


async def test_the_cost_has_a_header() -> None:
    caller = Caller()
    await Downstream(caller.send, an_exchange(backend="w1", answer_usd=0.00125), CHAT).answer(200, [], b"")

    assert b"0.001250000" == caller.headers[b"x-warmgate-cost-usd"]


async def test_the_prefill_worker_has_a_header() -> None:
    caller = Caller()
    await Downstream(caller.send, an_exchange(backend="w1", prefill_worker="p1"), CHAT).start(200, [])

    assert (b"w1", b"p1") == tuple(caller.headers[b"x-warmgate-" + name] for name in (b"worker", b"prefill-worker"))


async def test_the_decision_is_in_the_headers() -> None:
    """After the backend's headers come request id, worker, strategy and hit."""
    caller, exchange = Caller(), decided()
    await Downstream(caller.send, exchange, CHAT).start(200, [(b"x-engine", b"1")])

    assert [
        (b"x-engine", b"1"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", b"r-1"),
        (b"x-warmgate-worker", b"w1"),
        (b"x-warmgate-backend", b"worker"),
        (b"x-warmgate-strategy", b"prefix_aware"),
        (b"x-warmgate-hit-blocks", b"3"),
        (b"x-warmgate-hit-tokens", b"48"),
    ] == caller.header_list
    assert 200 == caller.status == exchange.status


async def test_a_stream_is_not_buffered_by_proxies() -> None:
    """The headers replace the worker's: nginx would buffer it, and some caches would keep it."""
    caller = Caller()
    headers = [(b"cache-control", b"public"), (b"x-accel-buffering", b"yes")]
    await Downstream(caller.send, an_exchange(), CHAT).start(200, headers)
    whole = Caller()
    await Downstream(whole.send, an_exchange(), CHAT).answer(200, headers, b"")

    assert [b"no-cache", b"no"] == [value for name, value in caller.header_list if name in dict(headers)]
    assert (b"public", b"yes") == (whole.headers[b"cache-control"], whole.headers[b"x-accel-buffering"])


async def test_the_chosen_model_has_a_header() -> None:
    """The rule that chose it has one, too. A name with other than ASCII characters does no harm."""
    caller, exchange = Caller(), decided()
    exchange.choice = RouteChoice("chat", "mödel", "long")
    await Downstream(caller.send, exchange, CHAT).start(200, [])

    assert (b"m?del", b"long") == (caller.headers[b"x-warmgate-model"], caller.headers[b"x-warmgate-rule"])


async def test_without_a_decision_there_is_only_the_request_id() -> None:
    """A request that was refused early names no worker."""
    caller = Caller()
    await Downstream(caller.send, an_exchange(), CHAT).answer(400, [], b"")

    assert [(b"content-length", b"0"), (b"x-request-id", b"r-1")] == caller.header_list


async def test_a_worker_id_that_is_not_ascii_does_no_harm() -> None:
    """The header can be read by every client."""
    caller = Caller()
    await Downstream(caller.send, an_exchange(backend="wörker", strategy="session"), CHAT).start(200, [])

    assert b"w?rker" == caller.headers[b"x-warmgate-worker"]


async def test_a_whole_answer_has_a_length() -> None:
    """It is sent as one start and one body."""
    caller = Caller()
    await Downstream(caller.send, an_exchange(), CHAT).answer(201, [], b"hello")

    assert (201, b"5", b"hello") == (caller.status, caller.headers[b"content-length"], caller.body)
    assert caller.ended


async def test_pieces_are_passed_on_unchanged() -> None:
    """Only the last one ends the response."""
    caller = Caller()
    downstream = Downstream(caller.send, an_exchange(), CHAT)
    await downstream.start(200, [])
    await downstream.write(b"a")
    await downstream.write(b"", last=True)

    assert [(b"a", True), (b"", False)] == [(m["body"], m["more_body"]) for m in caller.messages[1:]]


async def test_an_error_before_the_start_is_the_response() -> None:
    """It has OpenAI's shape, and the exchange records its status."""
    caller, exchange = Caller(), an_exchange()
    await Downstream(caller.send, exchange, CHAT).fail(MalformedBody("no JSON"))

    assert 400 == caller.status == exchange.status
    assert b"application/json" == caller.headers[b"content-type"]
    assert {
        "error": {"message": "no JSON", "type": "invalid_request_error", "param": None, "code": None}
    } == caller.json
    assert b"retry-after" not in caller.headers


@pytest.mark.parametrize(("seconds", "result"), [(0.01, b"1"), (1.4, b"2"), (2.0, b"2"), (2.6, b"3"), (90.0, b"90")])
async def test_retry_after_is_at_least_one_second(seconds: float, result: bytes) -> None:
    """A zero would bring every client back at once."""
    caller = Caller()
    await Downstream(caller.send, an_exchange(), CHAT).fail(NoWorker("nobody", retry_after_s=seconds))

    assert (503, result) == (caller.status, caller.headers[b"retry-after"])


async def test_an_error_after_the_start_is_the_last_event() -> None:
    """The status was sent already; the body ends without [DONE]."""
    caller, exchange = Caller(), decided()
    downstream = Downstream(caller.send, exchange, CHAT)
    await downstream.start(200, [])
    await downstream.fail(ReplyBroken("cut"))

    assert 200 == exchange.status
    assert caller.body.startswith(b'data: {"error":{"message":"cut"')
    assert caller.body.endswith(b"\n\n")
    assert b"[DONE]" not in caller.body
    assert caller.ended


async def test_an_error_inside_an_event_closes_it_first() -> None:
    """A part of an event too long to hold may have been sent."""
    caller = Caller()
    downstream = a_downstream(caller)
    downstream.observer = ChunkObserver(strip_usage=False, max_held=8)
    await downstream.start(200, [])
    await downstream.write(downstream.observer.feed(b"data: " + b"x" * 20))
    await downstream.fail(ReplyBroken("cut"))

    assert caller.body.startswith(b"data: " + b"x" * 20 + b'\n\ndata: {"error":')


async def test_an_error_after_the_end_is_not_sent() -> None:
    """The caller has the whole answer."""
    caller = Caller()
    downstream = a_downstream(caller)
    await downstream.start(200, [])
    await downstream.write(b"all", last=True)
    await downstream.fail(ReplyBroken("late"))

    assert (b"all", False) == (caller.body, downstream.takes_error)


async def test_anthropics_sdk_finds_the_request_id() -> None:
    """It reads a header of another name, and the body of errors."""
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        caller = Caller()
        await Downstream(caller.send, an_exchange(path=path), ENDPOINTS[path]).fail(NoWorker("nobody"))

        assert b"r-1" == caller.headers[b"request-id"] == caller.headers[b"x-request-id"]
        assert {
            "type": "error",
            "error": {"type": "overloaded_error", "message": "nobody"},
            "request_id": "r-1",
        } == caller.json


# ---- keep-alives

COMMENT = b": keep-alive\n\n"
WORKER = b": x-warmgate-worker: w1\n\n"


def a_downstream(caller: Caller) -> Downstream:
    return Downstream(caller.send, decided(), CHAT)


async def test_a_keep_alive_commits_the_response_to_a_stream() -> None:
    """Proxies need a status; the backend is not known yet."""
    caller, exchange = Caller(), decided()
    await Downstream(caller.send, exchange, CHAT).keep_alive()

    assert [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", b"r-1"),
    ] == caller.header_list
    assert 200 == caller.status == exchange.status
    assert (COMMENT, False) == (caller.body, caller.ended)


async def test_a_stream_that_a_keep_alive_began_names_its_worker_in_a_comment() -> None:
    """The headers were sent already."""
    caller = Caller()
    downstream = a_downstream(caller)
    await downstream.keep_alive()
    await downstream.start(200, [(b"x-engine", b"1")])
    await downstream.write(b"data: 1\n\n")

    assert COMMENT + WORKER + b"data: 1\n\n" == caller.body


async def test_an_answer_after_a_keep_alive_is_an_error_event() -> None:
    """The status of a 4xx can no longer be sent; its message can."""
    caller, exchange = Caller(), decided()
    downstream = Downstream(caller.send, exchange, CHAT)
    await downstream.keep_alive()
    await downstream.answer(400, [], b'{"error":{"message":"too long","type":"BadRequestError","code":400}}')

    assert (
        COMMENT + b'data: {"error":{"message":"too long","type":"BadRequestError","param":null,"code":null}}\n\n'
        == caller.body
    )
    assert caller.ended
    assert 200 == exchange.status


async def test_a_failure_after_a_keep_alive_is_an_error_event() -> None:
    """It names the error in the shape of the API that was used."""
    for path, event in (
        ("/v1/chat/completions", b'data: {"error":{"message":"nobody"'),
        ("/v1/responses", b'event: error\ndata: {"type":"error","code":"no_worker_available","message":"nobody"'),
        ("/v1/messages", b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"'),
    ):
        caller = Caller()
        downstream = Downstream(caller.send, an_exchange(path=path), ENDPOINTS[path])
        await downstream.keep_alive()
        await downstream.fail(NoWorker("nobody", retry_after_s=2))

        assert caller.body.startswith(COMMENT + event)
        assert caller.ended


async def test_no_comment_is_written_into_an_event() -> None:
    """A part of an event too long to hold was sent; after the event comments are possible again."""
    caller = Caller()
    downstream = a_downstream(caller)
    downstream.observer = ChunkObserver(strip_usage=False, max_held=8)
    await downstream.start(200, [])
    await downstream.write(downstream.observer.feed(b"data: " + b"x" * 20))
    await downstream.keep_alive()
    await downstream.write(downstream.observer.feed(b"y\n\n"))
    await downstream.keep_alive()

    assert b"data: " + b"x" * 20 + b"y\n\n" + COMMENT == caller.body


async def test_no_comment_follows_the_end() -> None:
    """This holds for streams, answers and errors."""
    stream, whole, failed = Caller(), Caller(), Caller()
    streaming, answering, failing = map(a_downstream, (stream, whole, failed))
    await streaming.start(200, [])
    await streaming.write(b"end", last=True)
    await answering.answer(200, [], b"end")
    await failing.fail(NoWorker("end"))
    for downstream in (streaming, answering, failing):
        await downstream.keep_alive()  # the caller would complain

    assert stream.ended
    assert whole.ended
    assert failed.ended


class Slow:
    """A caller that reads a message only when the test lets it."""

    def __init__(self) -> None:
        self.caller = Caller()
        self._taken = asyncio.Semaphore(0)
        self.waiting = 0

    async def send(self, message: Message) -> None:
        self.waiting += 1
        try:
            await self._taken.acquire()
        finally:
            self.waiting -= 1
        await self.caller.send(message)

    async def take(self, messages: int) -> None:
        for _ in range(messages):
            self._taken.release()
        await soon()

    def downstream(self) -> Downstream:
        return Downstream(self.send, decided(), CHAT)


async def soon() -> None:
    """Let everything happen that needs no further action."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("doing", ["start", "write", "last", "answer"])
async def test_no_comment_is_sent_beside_another_message(doing: str) -> None:
    """While the caller has not read the last message, a comment would only add to the delay."""
    slow = Slow()
    downstream = slow.downstream()
    if doing in {"write", "last"}:
        await slow.take(1)
        await downstream.start(200, [])
    async with asyncio.TaskGroup() as tasks:
        match doing:
            case "start":
                tasks.create_task(downstream.start(200, []))
            case "answer":
                tasks.create_task(downstream.answer(200, [], b"data"))
            case _:
                tasks.create_task(downstream.write(b"data", last=doing == "last"))
        await soon()
        await downstream.keep_alive()

        assert 1 == slow.waiting

        await slow.take(2)

    assert COMMENT not in b"".join(m.get("body", b"") for m in slow.caller.messages)


async def test_an_answer_with_a_length_gets_no_comment() -> None:
    """Not even between its head and its body."""
    slow = Slow()
    downstream = slow.downstream()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(downstream.answer(200, [], b"data"))
        await slow.take(1)
        await downstream.keep_alive()

        assert 1 == slow.waiting

        await slow.take(1)

    assert b"data" == slow.caller.body


@pytest.mark.parametrize("taken", [0, 1])
async def test_messages_wait_for_a_comment_that_is_being_sent(taken: int) -> None:
    """The comment may begin the response, and its head must come first."""
    slow = Slow()
    downstream = slow.downstream()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(downstream.keep_alive())
        await slow.take(taken)
        answering = tasks.create_task(downstream.start(200, []))
        await soon()

        assert (1, False) == (slow.waiting, answering.done())

        await slow.take(3 - taken)

    assert COMMENT + WORKER == slow.caller.body


@pytest.mark.parametrize("how", ["answer", "fail"])
async def test_the_end_waits_for_the_comment_that_begins_the_response(how: str) -> None:
    """Otherwise the answer would send a second head."""
    slow = Slow()
    downstream = slow.downstream()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(downstream.keep_alive())
        await soon()
        if how == "answer":
            tasks.create_task(downstream.answer(400, [], b'{"error":{"message":"no"}}'))
        else:
            tasks.create_task(downstream.fail(NoWorker("no")))
        await slow.take(3)

    assert slow.caller.body.startswith(COMMENT + b'data: {"error":{"message":"no"')
    assert slow.caller.ended


async def test_a_cancelled_comment_has_begun_nothing() -> None:
    """The response can still have its own status."""
    slow = Slow()
    downstream = slow.downstream()
    async with asyncio.TaskGroup() as tasks:
        commenting = tasks.create_task(downstream.keep_alive())
        await soon()
        commenting.cancel()
        tasks.create_task(downstream.fail(NoWorker("nobody")))
        await slow.take(2)

    assert 503 == slow.caller.status
    assert slow.caller.ended


async def test_a_cancelled_answer_does_not_wait_for_a_comment() -> None:
    """The task that sends the comment keeps it."""
    slow = Slow()
    downstream = slow.downstream()
    async with asyncio.TaskGroup() as tasks:
        commenting = tasks.create_task(downstream.keep_alive())
        await soon()
        answering = tasks.create_task(downstream.start(200, []))
        await soon()
        answering.cancel()
        await soon()

        assert answering.cancelled()
        assert not commenting.done()

        await slow.take(2)

    assert COMMENT == slow.caller.body


@pytest.mark.parametrize(
    ("is_whole", "taken", "takes_error"), [(False, 0, True), (False, 1, True), (True, 0, True), (True, 1, False)]
)
async def test_a_cut_response_takes_an_error_unless_it_has_a_length(
    is_whole: bool, taken: int, takes_error: bool
) -> None:
    """Before the head every response does."""
    slow = Slow()
    downstream = slow.downstream()

    async def stream() -> None:
        await downstream.start(200, [])
        await downstream.write(b"data")

    async with asyncio.TaskGroup() as tasks:
        cut = tasks.create_task(downstream.answer(200, [], b"data") if is_whole else stream())
        await slow.take(taken)
        cut.cancel()

    assert takes_error == downstream.takes_error

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(downstream.fail(NoWorker("nobody")))
        await slow.take(2)

    assert takes_error == slow.caller.ended
