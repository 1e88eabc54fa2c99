"""Bytes at the port that are nearly HTTP/1.1: an answer or the end of the connection, soon, and no one else suffers."""

import json
import select
import socket
from collections.abc import Iterator

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.bodies import PROMPT, damaged
from tests.fuzz.target import MARKER, Target, target

pytestmark = pytest.mark.e2e

unhurried = settings(deadline=None)
THINKING_S = 0.05
"""What is complete is mostly answered within this; after it the caller says that nothing more will come."""

BODY = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
KEY = b"authorization: Bearer " + MARKER.encode() + b"\r\n"
WITH_LENGTH = HEAD + KEY + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
IN_CHUNKS = (
    HEAD + KEY + b"transfer-encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(BODY), BODY)
)
ASKING = HEAD + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
UPGRADING = (
    HEAD + b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
)
OLD = WITH_LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0")
GET = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
REQUESTS = [WITH_LENGTH, IN_CHUNKS, ASKING, UPGRADING, OLD, GET, GET + WITH_LENGTH + GET, IN_CHUNKS + GET]
PIECES = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b"\xff",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"HTTP/2.0",
    b"HTTP/1.1",
    b"CONNECT",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"content-length: 3\r\n",
    b"content-length: 0\r\n",
    b"content-length: 99999999999\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"transfer-encoding: identity\r\n",
    b"connection: close\r\n",
    b"upgrade: websocket\r\nconnection: upgrade\r\n",
    b" folded\r\n",
    b"18446744073709551616",
    b"-1",
    b"x" * 70_000,
    b"http://[",
    b"http://w/v1/models",
    b"*",
    b"#",
    b"?",
    b"%",
    b"//",
    b"\x16\x03\x01\x02",
    GET,
]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Target]:
    with target(server={"keep_alive_s": 1, "body_idle_s": 0.5}) as running:
        yield running


def talk(gateway: Target, data: bytes) -> bytes:
    """Send *data*, then that no more will come; everything that the gateway answers up to its closing."""
    with gateway.connect() as client:
        answered = b""
        try:
            client.sendall(data)
            while select.select([client], [], [], THINKING_S)[0]:
                piece = client.recv(65_536)
                if not piece:
                    return answered
                answered += piece
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65_536):
                answered += piece
        except ConnectionError:
            pass  # it has closed, which it may
        return answered


def answers_in(data: bytes) -> list[tuple[int, bytes]]:
    """The final answers in *data*; the last may be cut off."""
    found: list[tuple[int, bytes]] = []
    while data:
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method="POST", target="/", headers=[("host", "w")]))
        reader.send(h11.EndOfMessage())
        reader.receive_data(data)
        status, body = 0, b""
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            match event:
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    body += bytes(event.data)
                case h11.NEED_DATA:
                    return found
        found.append((status, body))
        data = reader.trailing_data[0]
    return found


@unhurried
@given(data=st.sampled_from(REQUESTS).flatmap(lambda request: damaged(request, PIECES)))
def test_damaged_requests(gateway: Target, data: bytes) -> None:
    """Whatever is answered is HTTP, never a 500, in OpenAI's shape, and reports neither prompt nor key."""
    for status, body in answers_in(talk(gateway, data)):
        assert status < 500, body
        error = json.loads(body)["error"] if status >= 400 and body else {}
        assert error == {} or error["message"]
        if (status, error.get("param")) != (404, "model"):  # in a damaged body the prompt may be its name
            assert MARKER.encode() not in body


@unhurried
@given(data=st.binary(max_size=300))
def test_bytes_that_are_nothing(gateway: Target, data: bytes) -> None:
    """TLS, noise, half a line."""
    assert all(400 <= status < 500 for status, _ in answers_in(talk(gateway, data)))


@pytest.mark.parametrize("sent", [HEAD, WITH_LENGTH[:-5], IN_CHUNKS[:-4], b"", b"P", b"\x16\x03\x01"])
def test_who_stops_in_the_middle_is_let_go(gateway: Target, sent: bytes) -> None:
    """Without a word from the caller, when the time that it had is over."""
    with gateway.connect() as client:
        client.sendall(sent)
        while client.recv(65_536):
            pass


def test_the_gateway_serves_on(gateway: Target) -> None:
    """After all of the above."""
    answer = gateway.ask(WITH_LENGTH)

    assert 200 == answer.status
