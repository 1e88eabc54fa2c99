"""Attacks on the admin API by its own lower roles and by strangers."""

import asyncio
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.stack import Stack, stack
from tests.gateway.api.admin_v1.administration import Administration, administration, fault
from tests.processor_time import least_of


@pytest.fixture
async def blue() -> AsyncIterator[Administration]:
    """There is a team blue with a key ci."""
    async with administration() as admin:
        await admin.make("teams", name="blue")
        await admin.make("keys", team="blue", id="ci")
        yield admin


@pytest.mark.parametrize("who", ["op", "vi"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/keys/ci/rotate", {}),
        ("POST", "/keys/ci/rotate", {"grace_s": 3600}),
        ("POST", "/keys", {"team": "blue"}),
    ],
)
async def test_only_owners_get_secrets(
    blue: Administration, who: str, method: str, path: str, body: dict[str, object]
) -> None:
    """An operator that rotates a key would have the rights of its team, and lock its owner out."""
    before = (await blue.store.load()).keys
    response = await blue.ask(method, path, body, who=who)

    assert (403, "role_not_sufficient", None) == fault(response)
    assert "secret" not in response.text
    assert before == (await blue.store.load()).keys


async def test_an_operator_does_not_get_the_secret_of_an_owners_request_again(blue: Administration) -> None:
    """The idempotency key of somebody else opens nothing: neither to lower roles nor to another owner."""
    await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60}, idempotency_key="r-1")
    response = await blue.ask("POST", "/keys/ci/rotate", {"grace_s": 60}, who="op", idempotency_key="r-1")

    assert (403, "role_not_sufficient", None) == fault(response)


async def test_strangers_are_in_the_audit_log_and_cannot_fill_it(blue: Administration) -> None:
    """Five hundred wrong keys are one entry, with their number and none of the keys."""
    before = len(await blue.audited())
    async with blue.client(None) as client:
        for i in range(500):
            response = await client.get("/admin/v1/keys", headers={"x-api-key": f"guess-{i}"})
            assert 401 == response.status_code
            await blue.refused_logins.settle()
        blue.clock.now += 60
        await blue.refused_logins.settle()
    newest, second, *rest = await blue.audited()

    assert before == len(rest)
    assert [("unknown", "refuse", "login", 499), ("unknown", "refuse", "login", 1)] == [
        (entry["who"], entry["action"], entry["kind"], entry["after"]["requests"]) for entry in (newest, second)
    ]
    assert "guess" not in str([newest, second])


# ---- bodies, over real sockets

MIB = 2**20
OWNER = b"authorization: Bearer owner-of-the-tests\r\n"
STRANGER = b""
POST = b"POST /admin/v1/teams HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
PATCH = b"PATCH /admin/v1/teams/blue HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + b"[" * 65_536 + b"\r\n"


@asynccontextmanager
async def administered(**server: Any) -> AsyncIterator[Stack]:
    """A gateway with an owner's key."""
    admin = {"keys": [{"id": "root", "role": "owner", "secret": "owner-of-the-tests"}]}
    async with stack(1, teams=[{"name": "blue"}], admin=admin, server=server) as running:
        yield running


async def answer_to(running: Stack, head: bytes, piece: bytes = b"", times: int = 1) -> tuple[int, str, int]:
    """Status and message of the answer to *head* and up to *times* pieces of a body, and how many of them were sent."""
    address = urlsplit(running.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    sent = 0
    answer = b""
    try:
        async with asyncio.timeout(60):
            writer.write(head)
            reading = asyncio.ensure_future(reader.readuntil(b"}}"))
            while sent < times and not reading.done():
                writer.write(piece)
                await writer.drain()
                sent += 1
            answer = await reading
    finally:
        writer.transport.abort()
    status, _, body = answer.partition(b"\r\n\r\n")
    return int(status.split(b" ")[1]), json.loads(body)["error"]["message"], sent


@pytest.mark.parametrize(("key", "status"), [(STRANGER, 401), (OWNER, 413)])
@pytest.mark.parametrize("head", [POST, PATCH])
@pytest.mark.parametrize(
    ("framing", "times"),
    [(b"content-length: 8388608\r\n\r\n", 128), (b"content-length: 52428800\r\n\r\n", 800), (CHUNKED, 800)],
    ids=["8 MiB", "50 MiB", "50 MiB in chunks"],
)
async def test_no_large_body_is_taken(key: bytes, status: int, head: bytes, framing: bytes, times: int) -> None:
    """An announced one is refused from its head, a chunked one after 256 KiB; without a key always at once."""
    piece = CHUNK if framing is CHUNKED else b"[" * 65_536
    async with administered() as running:
        tracemalloc.start()
        try:
            reported, message, sent = await answer_to(running, head + key + framing, piece, times)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert status == reported
    assert sent * 65_536 <= 8 * MIB
    assert peak < 4 * MIB
    assert status == 401 or message == "The body is larger than 262144 bytes. Send a smaller body."


HOSTILE = {
    "nested": (b"[" * 4_900, "nested deeper than 256 levels"),
    "nested without end": (b'{"x":' + b'{"a":' * 50_000, "more than 5000 values"),
    "values": (b'{"models":[' + b"1," * 120_000 + b"1]}", "more than 5000 values"),
    "objects": (b'{"models":[' + b"{}," * 80_000 + b"1]}", "more than 5000 values"),
    "fields": (b"{" + b",".join(b'"nam%d":1' % number for number in range(4_000)) + b"}", "is not known here"),
    "one long text": (b'{"name":"' + b"x" * 250_000 + b'"}', ""),
}


# Ten times what the slowest of these bodies costs on a quiet machine.
MOST_SPENT_S = 0.25


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_no_shape_of_a_body_holds_the_gateway(name: str, method: str) -> None:
    """It is refused with 400, or the field is, before much is made of it; without a key nothing of it is looked at."""
    body, fault = HOSTILE[name]
    path = "/admin/v1/teams" if method == "POST" else "/admin/v1/teams/blue"
    headers = {"content-type": "application/json"}
    async with administered() as running:
        stranger = await running.http.request(method, path, content=body, headers=headers)
        await running.http.request(method, path, content=b"{}" + b" " * 5_000, headers={**headers, **named()})

        async def spent() -> float:
            began = time.thread_time()
            reply = await running.http.request(method, path, content=body, headers={**headers, **named()})
            took_s = time.thread_time() - began
            assert 400 <= reply.status_code < 410
            assert fault in reply.json()["error"]["message"]
            return took_s

        assert await least_of(5, spent, enough=MOST_SPENT_S) <= MOST_SPENT_S

    assert 401 == stranger.status_code


def named() -> dict[str, str]:
    return {"authorization": "Bearer owner-of-the-tests"}


@pytest.mark.parametrize(("key", "status"), [(STRANGER, 401), (OWNER, 408)])
async def test_a_slow_body_keeps_no_connection(key: bytes, status: int) -> None:
    """A stranger is answered before the body; with a key it has as long as any other body."""
    async with administered(body_idle_s=0.3) as running:
        reported, _, _ = await answer_to(running, POST + key + b"content-length: 100\r\n\r\n", b'{"na')

    assert status == reported
