"""A body is received and read within the bounds, whatever comes."""

import asyncio
from typing import Any

import pytest

from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import InvalidField, MemoryShort
from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.bodies.budget import BodyBudget
from gateway.proxy.bodies.decoder import BodyDecoder
from gateway.proxy.bodies.memory_guard import MemoryGuard
from gateway.proxy.incoming import Incoming
from tests.bodies import bodies_up_to

CHAT = ENDPOINTS["/v1/chat/completions"]


def incoming(body: bytes, *headers: tuple[bytes, bytes]) -> Incoming:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Incoming({"method": "POST", "path": CHAT.path, "headers": [*headers]}, receive)


@pytest.mark.parametrize("headers", [[(b"content-length", b"300000")], []], ids=["announced", "in chunks"])
async def test_a_large_body_counts_while_its_request_lasts(headers: list[tuple[bytes, bytes]]) -> None:
    """The next one that does not fit is refused; a small one is not."""
    bodies = bodies_up_to(10**6, max_bodies_bytes=500_000)
    first, second = bodies.share(), bodies.share()
    await bodies.receive(incoming(b"x" * 300_000, *headers), CHAT, first)
    with pytest.raises(MemoryShort):
        await bodies.receive(incoming(b"x" * 300_000, *headers), CHAT, second)
    assert await bodies.receive(incoming(b"x"), CHAT, second) == b"x"

    first.close()
    assert len(await bodies.receive(incoming(b"x" * 300_000, *headers), CHAT, second)) == 300_000


async def test_an_announced_body_is_refused_before_it_is_read() -> None:
    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read")

    bodies = bodies_up_to(10**6, max_bodies_bytes=500_000)
    head = {"method": "POST", "path": CHAT.path, "headers": [(b"content-length", b"600000")]}
    with pytest.raises(MemoryShort):
        await bodies.receive(Incoming(head, receive), CHAT, bodies.share())


def test_no_request_is_admitted_without_memory() -> None:
    guard = MemoryGuard(1, rss_bytes=lambda: 2)
    guard.look()
    reader = BodyDecoder(max_values=1, max_cpu_s=1)
    bodies = Bodies(max_body_bytes=1, budget=BodyBudget(1), reader=reader, guard=guard)
    with pytest.raises(MemoryShort):
        bodies.check_memory()


@pytest.mark.e2e
async def test_only_json_has_positions_of_fields() -> None:
    reader = BodyDecoder(max_values=10, max_cpu_s=30)
    bodies = Bodies(max_body_bytes=1, budget=BodyBudget(1), reader=reader)
    try:
        assert (("a", 5, 6),) == await bodies.places(CHAT, b'{"a":1}')
        assert await bodies.places(ENDPOINTS["/v1/audio/transcriptions"], b"") is None
    finally:
        await asyncio.to_thread(reader.close)


def one_model(name: str | None) -> Bodies:
    reader = BodyDecoder(max_values=10, max_cpu_s=30)
    return Bodies(max_body_bytes=1, budget=BodyBudget(1), reader=reader, only_model=lambda: name)


@pytest.mark.parametrize("model", [b"", b'"model":"",', b'"model":null,'])
async def test_a_body_need_not_name_the_only_model(model: bytes) -> None:
    """The worker still gets the name."""
    raw = b'{%b"messages":[{"role":"user","content":"Hello"}]}' % model
    body = await one_model("tiny").read(CHAT, raw, incoming(raw))

    assert body.model == "tiny"
    assert b'"model":"tiny"' in CHAT.upstream_body(raw, b"application/json", body, "tiny")


async def test_a_body_has_to_name_one_of_several_models() -> None:
    raw = b'{"messages":[{"role":"user"}]}'
    with pytest.raises(InvalidField) as refusal:
        await one_model(None).read(CHAT, raw, incoming(raw))

    assert ("model", 400) == (refusal.value.param, refusal.value.status)


async def test_a_gateway_in_front_of_a_picker_chooses_the_model() -> None:
    """The worker gets the name in place of that in the body, even if the body names the worker's own model."""
    raw = b'{"model":"tiny","messages":[{"role":"user"}]}'
    scope = {"headers": [(b"x-gateway-model-name-rewrite", b"small")], "delivery": None}
    body = await one_model("tiny").read(CHAT, raw, Incoming(scope, incoming(raw).receive))

    assert ("small", False) == (body.model, body.names_model)
    sent = CHAT.upstream_body(raw, b"application/json", body, "small")
    assert b'{"model":"small","messages":[{"role":"user"}]}' == sent


async def test_a_rule_replaces_the_model() -> None:
    """It is asked once for a request, whose body may be read again. A header that names a model takes precedence."""
    raw = b'{"model":"tiny","messages":[{"role":"user"}]}'
    names = iter(("first", "second", "tiny"))
    reader = BodyDecoder(max_values=10, max_cpu_s=30)
    bodies = Bodies(max_body_bytes=1, budget=BodyBudget(1), reader=reader, rewritten=lambda *_: next(names))
    one = incoming(raw)
    chosen = Incoming({"headers": [(b"x-gateway-model-name-rewrite", b"small")], "delivery": None}, one.receive)
    read = [await bodies.read(CHAT, raw, each) for each in (one, one, incoming(raw), chosen, incoming(raw))]

    assert ["first", "first", "second", "small", "tiny"] == [body.model for body in read]
    assert [False, False, False, False, True] == [body.names_model for body in read]
