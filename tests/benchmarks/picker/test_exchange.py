from collections.abc import Callable
from typing import cast

from benchmarks.picker import wire
from benchmarks.picker.bare import chosen
from benchmarks.picker.exchange import Answer, Exchange, Request, Times
from benchmarks.picker.http2 import Connection


class Call:
    """Call that keeps the messages of the client."""

    def __init__(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.take = on_message
        self.on_end = on_end
        self.sent: list[bytes] = []
        self.is_ended = False

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def end(self) -> None:
        self.is_ended = True


class Server:
    """Connection with one call."""

    def call(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> Call:
        self.only = Call(on_message, on_end)
        return self.only


def began(body: bytes) -> tuple[Call, list[Times | None]]:
    """Begin a request with *body*. Return its call, and the list that gets its times."""
    server, ends = Server(), list[Times | None]()
    Exchange(cast("Connection", server), Request.of(body), Answer.of(b"{}"), ends.append)
    return server.only, ends


def test_a_body_is_sent_in_pieces() -> None:
    call, _ = began(b"x" * 20_000)

    kinds = [wire.kind_and_content(message) for message in call.sent]
    assert [wire.REQUEST_HEADERS, wire.REQUEST_BODY, wire.REQUEST_BODY] == [kind for kind, _ in kinds]
    assert [(16_384, False), (3_616, True)] == [
        (len(piece), is_last) for piece, is_last in (wire.piece_in(content) for _, content in kinds[1:])
    ]


def test_a_request_ends_with_the_body_of_the_answer() -> None:
    call, ends = began(b"x")
    call.take(chosen(b"10.0.0.1:8000"))
    call.take(wire.streamed_answer(wire.BODY_OF_REQUEST, b"x", is_last=True))
    assert 4 == len(call.sent)
    call.take(wire.field(wire.HEADERS_OF_ANSWER, b""))
    assert not ends
    call.take(wire.streamed_answer(wire.BODY_OF_ANSWER, b"{}", is_last=True))
    call.on_end()

    assert call.is_ended
    (times,) = ends
    assert times is not None
    assert times.added_s == times.pick_s + times.answer_s


def test_a_body_that_was_cut_is_a_failure() -> None:
    call, ends = began(b"xx")
    call.take(chosen(b"10.0.0.1:8000"))
    call.take(wire.streamed_answer(wire.BODY_OF_REQUEST, b"x", is_last=True))

    assert [None] == ends


def test_a_body_without_an_endpoint_is_a_failure() -> None:
    call, ends = began(b"x")
    call.take(wire.streamed_answer(wire.BODY_OF_REQUEST, b"x", is_last=True))

    assert [None] == ends


def test_an_immediate_response_is_a_failure() -> None:
    call, ends = began(b"x")
    call.take(wire.field(wire.IMMEDIATE, b""))
    call.on_end()

    assert [None] == ends
