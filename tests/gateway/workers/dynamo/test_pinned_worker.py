"""A worker behind a Dynamo frontend, over real sockets."""

import json

import pytest

from gateway.backends.backend import Call, Reply, whole
from gateway.backends.worker import HttpWorker
from gateway.protocol.errors import ReplyBroken, UpstreamRefused
from gateway.workers.dynamo.pinned_worker import PinnedWorker
from gateway.workers.shared_address.placed_worker import SharedAddress
from gateway.workers.worker_place import WorkerPlace
from tests.gateway.backends.upstream.peer import Peer, Request, Script, Wire, serving

UNKNOWN = b'{"message":"Invalid request","type":"Bad Request","code":400}'
WRONG = b'{"message":"Validation: Temperature must be between 0 and 2, got 99","type":"Bad Request","code":400}'


def health(*ids: int) -> bytes:
    return json.dumps({"instances": [{"instance_id": each, "endpoint": "generate"} for each in ids]}).encode()


def frontend(said: bytes, *, status: str = "400 Bad Request", listed: bytes | None = None) -> Script:
    """Answers requests so, and ``/health`` with *listed*; None: it breaks off."""

    async def script(request: Request, wire: Wire) -> None:
        is_health = request.line.startswith(b"GET /health")
        if is_health and listed is None:
            wire.reset()
            return
        line, body = ("200 OK", listed or b"") if is_health else (status, said)
        await wire.send(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (line.encode(), len(body), body))

    return script


async def sent(peer: Peer, body: bytes = b'{"model":"tiny"}') -> Reply:
    worker = PinnedWorker("dynamo#7", WorkerPlace(1, "7"), SharedAddress(HttpWorker("dynamo", peer.url)))
    return await worker.send(Call(b"POST", b"/v1/completions", [], body, streams=False, model="tiny"))


async def test_a_request_is_pinned_by_headers() -> None:
    async with serving(frontend(b"{}", status="200 OK")) as peer:
        reply = await sent(peer)
        assert (200, b"{}") == (reply.status, await whole(reply))
        await reply.aclose()

    (request,) = peer.requests
    assert (b"7", b"1") == (request.header(b"x-dynamo-worker-instance-id"), request.header(b"x-dynamo-dp-rank"))


async def test_an_instance_that_is_gone_is_no_fault_of_the_callers() -> None:
    """The frontend says 400 of the pin; it does not list the instance any more."""
    async with serving(frontend(UNKNOWN, listed=health(8))) as peer:
        with pytest.raises(UpstreamRefused, match="worker dynamo#7 is no longer listed by its frontend") as raised:
            await sent(peer)

    assert 503 == raised.value.status


@pytest.mark.parametrize(
    ("body", "sent_on"),
    [
        (b'{"cache_salt":"a","x": 1.0}', b'{"nvext":{"cache_salt":"a"},"cache_salt":"a","x": 1.0}'),
        (b'{"cache_salt":"a","nvext":null}', b'{"cache_salt":"a","nvext":{"cache_salt":"a"}}'),
        (b'{"cache_salt":"a","nvext":{"y":2}}', b'{"cache_salt":"a","nvext":{"cache_salt":"a","y":2}}'),
        (b'{"cache_salt":"a","nvext":{"cache_salt":"b"}}', b'{"cache_salt":"a","nvext":{"cache_salt":"b"}}'),
        (b'{"prompt":"\\"cache_salt\\""}', b'{"prompt":"\\"cache_salt\\""}'),
        (b'{"x":{"cache_salt":"a"}}', b'{"x":{"cache_salt":"a"}}'),
        (b'{"cache_salt":"a","nvext":3}', b'{"cache_salt":"a","nvext":3}'),
    ],
)
async def test_a_salt_stands_also_where_dynamo_has_it(body: bytes, sent_on: bytes) -> None:
    """What a caller says there counts; what is no object is for the frontend to refuse."""
    async with serving(frontend(b"{}", status="200 OK")) as peer:
        await (await sent(peer, body)).aclose()

    assert [sent_on] == [request.body for request in peer.requests]


async def test_hints_about_caches_do_not_reach_a_frontend() -> None:
    """It answers a request with a field that it does not know with status 400."""
    hints = b'"prompt_cache_key":"k","prompt_cache_options":{"ttl":"30m"},"prompt_cache_retention":"24h"'
    bodies = [b'{"x":1.0,' + hints + b"}", b' {"x":"\\"prompt_cache_key\\""} ']
    async with serving(frontend(b"{}", status="200 OK")) as peer:
        for body in bodies:
            await (await sent(peer, body)).aclose()

    assert [b'{"x":1.0}', bodies[1]] == [request.body for request in peer.requests]


@pytest.mark.parametrize(
    "script",
    [
        frontend(UNKNOWN, listed=health(7)),
        frontend(UNKNOWN, listed=b"ok"),
        frontend(UNKNOWN, listed=None),
        frontend(WRONG, listed=health()),
        frontend(b"?", listed=health()),
    ],
    ids=["it is listed", "no list", "no answer", "says what is wrong", "no JSON"],
)
async def test_else_the_answer_passes_as_it_is(script: Script) -> None:
    """To anyone who reads it next, whole."""
    async with serving(script) as peer:
        reply = await sent(peer)

        assert 400 == reply.status
        assert not reply.ended
        assert await whole(reply) in (UNKNOWN, WRONG, b"?")
        assert (True, b"") == (reply.ended, await reply.read())
        reply.expect_within(1.0)
        reply.interrupt(ReplyBroken("late"))
        await reply.aclose()
