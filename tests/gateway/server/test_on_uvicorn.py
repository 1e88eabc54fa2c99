"""What uvicorn adds to the connections: the settings that bound them, and a port that is taken."""

import json
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from gateway.app.serving import serve
from gateway.server.listener import ServerError, bind
from tests.gateway.server.harness import answer_to, connected, create_app, served_elsewhere, settings

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def limited() -> Iterator[str]:
    with served_elsewhere(port=0, max_header_bytes=8192, max_connections=3, keep_alive_s=2, body_idle_s=1) as url:
        yield url


def test_it_serves_what_is_within_the_limits(limited: str) -> None:
    """A large head, and a body that is larger than a head may be."""
    assert 200 == httpx.get(limited, headers={"x-filler": "a" * 7800}, timeout=60).status_code
    assert "a" * 100_000 == httpx.post(f"{limited}/echo", content=b"a" * 100_000, timeout=60).text


def test_a_head_above_the_limit_is_answered_431(limited: str) -> None:
    """max_header_bytes."""
    answer = answer_to(limited, b"GET / HTTP/1.1\r\nhost: a\r\nx-filler: " + b"a" * 8200 + b"\r\n\r\n")

    head, body = answer.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert "headers_too_large" == json.loads(body)["error"]["code"]


def test_a_connection_that_sends_no_request_is_closed(limited: str) -> None:
    """After keep_alive_s: without an answer where nothing was asked, with 408 where that did not come to its end."""
    before = time.monotonic()
    with connected(limited) as silent, connected(limited) as slow:
        slow.sendall(b"GET / HT")

        assert (b"", b"HTTP/1.1 408 Request Timeout\r\n") == (silent.recv(1), slow.recv(30))
    assert 1.9 < time.monotonic() - before < 15


def test_a_body_that_stops_is_cut(limited: str) -> None:
    """After body_idle_s, with 408."""
    before = time.monotonic()

    answer = answer_to(limited, b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbo")

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert 0.9 < time.monotonic() - before < 15


def test_one_connection_too_many_is_answered_503(limited: str) -> None:
    """max_connections; the others go on."""
    with httpx.Client(timeout=60) as a, httpx.Client(timeout=60) as b, httpx.Client(timeout=60) as c:
        assert [200, 200, 200] == [client.get(limited).status_code for client in (a, b, c)]
        head, body = answer_to(limited, b"").split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"retry-after: 1" in head
        assert "too_many_connections" == json.loads(body)["error"]["code"]
        assert [200, 200, 200] == [client.get(limited).status_code for client in (a, b, c)]


def test_a_port_that_was_lost_after_the_binding_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    """Two processes can bind a port before one listens; the second to listen is never ready, and its lifespan ends."""
    with closing(bind("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with closing(bind("127.0.0.1", port)) as second:
            first.listen()
            with pytest.raises(ServerError, match=f"^Cannot listen on 127.0.0.1 port {port}: Address already in use.$"):
                serve(settings(port=port), create_app=create_app, bound=second)

    assert ("lifespan ended\n", "") == capfd.readouterr()
