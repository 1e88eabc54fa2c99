import json
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from gateway.server import ServerError, bind, serve
from tests.gateway.server.harness import answer_to, connected, create_app, served_elsewhere, settings


@pytest.fixture(scope="module")
def limited() -> Iterator[str]:
    with served_elsewhere(port=0, max_header_bytes=8192, max_connections=3, keep_alive_s=2) as url:
        yield url


def test_a_head_within_the_limit_passes(limited: str) -> None:
    """8,000 of 8,192 bytes."""
    assert 200 == httpx.get(limited, headers={"x-filler": "a" * 7800}).status_code


@pytest.mark.parametrize("size", [8200, 60_000, 500_000])
def test_a_head_above_the_limit_is_answered_431(limited: str, size: int) -> None:
    """Whether it comes in one piece or in many."""
    answer = answer_to(limited, b"GET / HTTP/1.1\r\nhost: a\r\nx-filler: " + b"a" * size + b"\r\n\r\n")

    head, body = answer.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert "headers_too_large" == json.loads(body)["error"]["code"]


def test_a_head_without_end_is_answered_431(limited: str) -> None:
    """The bytes count while they come, not when they are complete."""
    assert answer_to(limited, b"GET /" + b"a" * 9000).startswith(b"HTTP/1.1 431 ")


def test_a_large_body_is_not_a_large_head(limited: str) -> None:
    """What follows the head in the same piece does not count."""
    assert 200 == httpx.post(limited, content=b"a" * 100_000).status_code


@pytest.mark.parametrize("offer", [b"h2c", b"websocket"])
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_an_offer_of_another_protocol_is_passed_over(limited: str, offer: bytes, pieces: int) -> None:
    """Java's HTTP client makes one with its first request: it is served with its body, however the bytes arrive."""
    offered = b"connection: Upgrade\r\nupgrade: " + offer
    head = b"POST /echo HTTP/1.1\r\nhost: a\r\n" + offered + b"\r\ncontent-length: 4\r\n\r\n"
    cuts = {1: [head + b"body"], 2: [head, b"body"], 3: [head[:40], head[40:] + b"bo", b"dy"]}[pieces]

    with connected(limited) as client:
        for piece in cuts:
            client.sendall(piece)
            time.sleep(0.02)
        answer = client.recv(65_536)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"body")


def test_what_is_not_http_is_answered_400_in_our_shape(limited: str) -> None:
    """As every other error."""
    _, body = answer_to(limited, b"nonsense\r\n\r\n").split(b"\r\n\r\n")

    assert "invalid_request_error" == json.loads(body)["error"]["type"]


def test_a_connection_that_sends_no_request_is_closed(limited: str) -> None:
    """After keep_alive_s, and without an answer: nothing was asked, or not to the end."""
    before = time.monotonic()
    with connected(limited) as silent, connected(limited) as slow:
        slow.sendall(b"GET / HT")

        assert (b"", b"") == (silent.recv(1), slow.recv(1))
    assert 1.9 < time.monotonic() - before < 15


def test_one_connection_too_many_is_answered_503(limited: str) -> None:
    """At once, with the time after which to come again; the others go on."""
    with httpx.Client() as a, httpx.Client() as b, httpx.Client() as c:
        assert [200, 200, 200] == [client.get(limited).status_code for client in (a, b, c)]
        head, body = answer_to(limited, b"").split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"retry-after: 1" in head
        assert "too_many_connections" == json.loads(body)["error"]["code"]
        assert [200, 200, 200] == [client.get(limited).status_code for client in (a, b, c)]


def test_a_port_that_was_lost_after_the_binding_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    """Two may bind a port while nobody listens on it; the second to listen is never ready, and its lifespan ends."""
    with closing(bind("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with closing(bind("127.0.0.1", port)) as second:
            first.listen()
            with pytest.raises(ServerError, match=f"^Cannot listen on 127.0.0.1 port {port}: Address already in use.$"):
                serve(settings(port=port), create_app=create_app, bound=second)

    assert ("lifespan ended\n", "") == capfd.readouterr()
