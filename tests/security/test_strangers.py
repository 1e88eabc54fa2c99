"""Callers without a key, over real sockets: what they can take of a gateway, and what it makes of odd requests."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.stack import Stack, stack

TEAMS = [{"name": "blue", "keys": [{"id": "k1", "secret": "sk-blue"}]}]
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"


@asynccontextmanager
async def governed(**server: Any) -> AsyncIterator[Stack]:
    """A gateway that asks for keys."""
    async with stack(1, teams=TEAMS, server=server) as running:
        yield running


@asynccontextmanager
async def connected(
    running: Stack, source: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    address = urlsplit(running.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer_to(running: Stack, pieces: Sequence[bytes], source: str = "127.0.0.1") -> tuple[int, dict[str, Any]]:
    """Status and error of the one answer to what was sent, when the connection has ended."""
    async with connected(running, source) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)["error"]


async def taken(running: Stack, head: bytes, piece: bytes, *, most: int) -> tuple[int, bytes]:
    async with connected(running) as (reader, writer):
        writer.write(head)
        sent = 0
        try:
            async with asyncio.timeout(60):
                while sent < most and not writer.is_closing():
                    writer.write(piece)
                    sent += len(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except OSError:
            pass
        answered = await reader.read() if not reader.exception() else b""
        return sent, answered


@pytest.mark.parametrize("framing", [b"content-length: 209715200\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"])
async def test_the_body_of_a_refused_request_is_not_taken(framing: bytes) -> None:
    size = 65_536
    piece = b"a" * size if b"length" in framing else b"%x\r\n%b\r\n" % (size, b"a" * size)
    async with governed() as running:
        sent, _ = await taken(running, HEAD + framing, piece, most=200 * 2**20)

        assert sent < 50 * 2**20


async def test_a_refusal_can_be_read_before_the_connection_ends() -> None:
    async with governed() as running:
        status, error = await answer_to(running, [HEAD, b"content-length: 9000000\r\n\r\n", b"a" * 1000])

        assert (401, "invalid_api_key") == (status, error["code"])


async def test_a_request_has_100_header_fields_at_most() -> None:
    """With more the answer is 431."""
    async with governed() as running:
        status, error = await answer_to(running, [HEAD + b"x: y\r\n" * 100 + b"\r\n"])

        assert (431, "headers_too_large") == (status, error["code"])


async def test_one_address_cannot_keep_all_others_out() -> None:
    """It has its own limit; another address is served beside it, and a trusted proxy has none."""
    limits = {"max_connections": 50, "max_connections_per_address": 3, "trusted_proxies": ["127.0.0.3/32"]}
    async with governed(**limits) as running:
        held = [connected(running, "127.0.0.2") for _ in range(3)] + [connected(running, "127.0.0.3") for _ in range(9)]
        for each in held:
            await each.__aenter__()
        refused = await answer_to(running, [b""], "127.0.0.2")
        beside = await answer_to(running, [HEAD, b"content-length: 9000000\r\n\r\n"], "127.0.0.4")
        proxied = await answer_to(running, [HEAD, b"content-length: 9000000\r\n\r\n"], "127.0.0.3")
        for each in held:
            await each.__aexit__(None, None, None)

        assert (503, "too_many_connections") == (refused[0], refused[1]["code"])
        assert [401, 401] == [beside[0], proxied[0]]


async def test_a_body_that_pauses_is_answered_408() -> None:
    """Also one of a caller with a key: its connection is closed."""
    async with governed(body_idle_s=0.2) as running:
        status, error = await answer_to(running, [HEAD, b"authorization: Bearer sk-blue\r\ncontent-length: 4\r\n\r\n{"])

        assert (408, "request_timeout") == (status, error["code"])


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a b\r\n\r\n",
        b"GET  /livez HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /livez  HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET\t/livez HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /livez HTTP/1.1 \r\nhost: a\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n",
        b"GET /livez HTTP/1.1\nhost: a\n\n",
        b"GET /livez HTTP/1.1\r\nhost: a\rx: y\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost : a\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a\r\nx: \x01\r\n\r\n",
        b"GET ftp://a/livez HTTP/1.1\r\nhost: a\r\n\r\n",
        HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"content-length: +2\r\n\r\n{}",
        HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        HEAD.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(request_: bytes) -> None:
    """With 400, and nothing behind it is taken for a request."""
    async with governed() as running:
        status, error = await answer_to(running, [request_ + b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n"])

        assert (400, "invalid_request_error") == (status, error["type"])


def form(text: bytes) -> bytes:
    """A question about a file that holds *text*."""
    head = b'--xyz\r\ncontent-disposition: form-data; name="model"\r\n\r\ntiny\r\n'
    file = b'--xyz\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--xyz--\r\n' % text
    return head + file


def upload(body: bytes, *, is_chunked: bool) -> bytes:
    """A request with *body*; its chunks have five bytes."""
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer sk-blue\r\n"
    head += b"content-type: multipart/form-data; boundary=xyz\r\n"
    if not is_chunked:
        return head + b"content-length: %d\r\n\r\n" % len(body) + body
    pieces = [body[at : at + 5] for at in range(0, len(body), 5)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    return head + b"transfer-encoding: chunked\r\n\r\n" + chunks


async def statuses(running: Stack, pieces: Sequence[bytes]) -> list[int]:
    async with connected(running) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            for _ in range(5):
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            answered = await reader.read()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", answered)]


LAST = b"GET /livez HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_may_hold_what_a_request_line_may_not(is_chunked: bool) -> None:
    """Also where the next request comes in the same piece: both are answered."""
    text = LAST.replace(b" /livez", b"  /livez") + b"GET /livez  HTTP/1.1\r\n" + b"\r\n0\r\n\r\n" + LAST
    first = upload(form(text), is_chunked=is_chunked)
    async with governed() as running:
        assert [200, 200] == await statuses(running, [first + LAST])
        for cut in range(len(first) - 12, len(first) + 30):
            assert [200, 200] == await statuses(running, [(first + LAST)[:cut], (first + LAST)[cut:]])


@pytest.mark.parametrize("line", [b"GET  /livez HTTP/1.1\r\n", b"GET /livez  HTTP/1.1\r\n"])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_two_spaces_in_the_line_of_a_pipelined_request_are_refused(line: bytes, is_chunked: bool) -> None:
    """Wherever its bytes are cut, and although the body before it holds the line as it should be."""
    first = upload(form(LAST), is_chunked=is_chunked)
    both = first + line + b"host: a\r\n\r\n"
    async with governed() as running:
        assert [200, 400] == await statuses(running, [both])
        for cut in range(len(first) - 8, len(both)):
            assert [200, 400] == await statuses(running, [both[:cut], both[cut:]])
