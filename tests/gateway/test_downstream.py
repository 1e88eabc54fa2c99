"""The caller's side of an exchange, told in ASGI messages."""

import pytest

from gateway.downstream import Downstream
from gateway.errors import MalformedBody, NoWorker, ReplyBroken
from gateway.exchange import Exchange
from tests.gateway.asgi import Caller
from tests.gateway.examples import an_exchange


def decided() -> Exchange:
    return an_exchange(backend="w1", strategy="prefix_aware", hit_blocks=3)


async def test_the_decision_stands_in_the_headers() -> None:
    """After those of the backend come the request's id, the worker, the strategy and the hit."""
    caller, exchange = Caller(), decided()
    await Downstream(caller.send, exchange).start(200, [(b"x-engine", b"1")])

    assert [
        (b"x-engine", b"1"),
        (b"x-request-id", b"r-1"),
        (b"x-warmgate-worker", b"w1"),
        (b"x-warmgate-strategy", b"prefix_aware"),
        (b"x-warmgate-hit-blocks", b"3"),
    ] == caller.header_list
    assert 200 == caller.status == exchange.status


async def test_without_a_decision_there_is_only_the_request_id() -> None:
    """A request that was refused before a worker was chosen names none."""
    caller = Caller()
    await Downstream(caller.send, an_exchange()).start(400, [])

    assert [(b"x-request-id", b"r-1")] == caller.header_list


async def test_a_workers_id_that_is_no_ascii_does_no_harm() -> None:
    """A header holds bytes that every client can read."""
    caller = Caller()
    await Downstream(caller.send, an_exchange(backend="wörker", strategy="session")).start(200, [])

    assert b"w?rker" == caller.headers[b"x-warmgate-worker"]


async def test_a_whole_answer_has_a_length() -> None:
    """Start and body, and no more to come."""
    caller = Caller()
    await Downstream(caller.send, an_exchange()).answer(201, [], b"hello")

    assert (201, b"5", b"hello") == (caller.status, caller.headers[b"content-length"], caller.body)
    assert caller.ended


async def test_pieces_are_passed_on_as_they_are() -> None:
    """Only the last one ends the response."""
    caller = Caller()
    downstream = Downstream(caller.send, an_exchange())
    await downstream.start(200, [])
    await downstream.write(b"a")
    await downstream.write(b"", last=True)

    assert [(b"a", True), (b"", False)] == [(m["body"], m["more_body"]) for m in caller.messages[1:]]


async def test_an_error_before_the_start_is_the_response() -> None:
    """Status, OpenAI's shape, and the exchange knows what was told."""
    caller, exchange = Caller(), an_exchange()
    await Downstream(caller.send, exchange).fail(MalformedBody("no JSON"))

    assert 400 == caller.status == exchange.status
    assert b"application/json" == caller.headers[b"content-type"]
    assert {
        "error": {"message": "no JSON", "type": "invalid_request_error", "param": None, "code": None}
    } == caller.json
    assert b"retry-after" not in caller.headers


@pytest.mark.parametrize(("seconds", "told"), [(0.01, b"1"), (1.4, b"1"), (2.0, b"2"), (2.6, b"3"), (90.0, b"90")])
async def test_retry_after_is_whole_seconds_and_never_none(seconds: float, told: bytes) -> None:
    """A zero would call every client back at once."""
    caller = Caller()
    await Downstream(caller.send, an_exchange()).fail(NoWorker("nobody", retry_after_s=seconds))

    assert (503, told) == (caller.status, caller.headers[b"retry-after"])


async def test_an_error_after_the_start_is_the_last_event() -> None:
    """The status is out; what remains is the body, and its end without a claim of success."""
    caller, exchange = Caller(), decided()
    downstream = Downstream(caller.send, exchange)
    await downstream.start(200, [])
    await downstream.fail(ReplyBroken("cut"))

    assert 200 == exchange.status
    assert caller.body.startswith(b'data: {"error":{"message":"cut"')
    assert caller.body.endswith(b"\n\n")
    assert b"[DONE]" not in caller.body
    assert caller.ended
