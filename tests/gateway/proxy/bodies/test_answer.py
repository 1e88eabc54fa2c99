"""Messages between the gateway and the process that decodes bodies."""

import socket
import threading

import pytest

from gateway.protocol.body import parse_chat
from gateway.protocol.errors import InvalidField, MalformedBody
from gateway.proxy.bodies.answer import DecodeResult, read_answer, read_question, refusal, send_answer, send_question


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_question_arrives_as_it_was_sent(size: int) -> None:
    """Also where it is larger than what the line holds, and where the line has a timeout."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(30)
    with ours, theirs:
        sending = threading.Thread(
            target=send_question, args=(ours, b"/p", b"t", b"x" * size), kwargs={"max_values": 7}
        )
        sending.start()
        arrived = read_question(theirs)
        sending.join()

    assert (b"/p", b"t", b"x" * size, 7) == arrived


def test_a_line_that_ends_says_nothing() -> None:
    """Neither at its end nor within a message."""
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(b"\x09" + bytes(7) + b"\x96")
        assert read_answer(theirs) is None
        assert read_question(theirs) is None


def test_a_body_arrives_with_all_that_was_read_of_it() -> None:
    body = parse_chat(b'{"model":"m","priority":1,"messages":[{"role":"user","content":"\xe6\xbc\xa2"}]}')
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_answer(ours, DecodeResult(body=list(body.fields()), places=(("model", 9, 12),)))
        answer = read_answer(theirs)

    assert answer is not None
    assert body.changed(places=(("model", 9, 12),)) == answer.to_body()


@pytest.mark.parametrize("error", [MalformedBody("no JSON"), InvalidField("'n' is wrong", param="n")])
def test_a_refusal_arrives_as_the_error_that_it_is(error: MalformedBody) -> None:
    with pytest.raises(type(error)) as raised:
        refusal(error).to_body()

    assert (error.message, error.param) == (raised.value.message, raised.value.param)
