"""Receiving a body. Faults of a body, with their answers, are in test_proxy.py."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.proxy.bodies.receive import receive_body
from gateway.proxy.incoming import JSON, LONG_BODY_BYTES, Incoming


def _receive(pieces: Iterable[bytes]) -> Any:
    """A `receive` that has all *pieces* at once."""
    left = [*pieces]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


@pytest.mark.parametrize(("size", "turns"), [(LONG_BODY_BYTES, 0), (LONG_BODY_BYTES + 1, 1)])
async def test_other_tasks_run_before_a_long_body_is_read(size: int, turns: int) -> None:
    """A long body yields to the event loop even if all of it was there at once."""
    scope = {"method": "POST", "path": "/v1/x", "headers": [(b"content-length", b"%d" % size)]}
    pieces = [b"x" * (size - 1), b"y"]
    had: list[str] = []
    asyncio.get_running_loop().call_soon(had.append, "a turn")

    body = await receive_body(Incoming(scope, _receive(pieces)), JSON, max_bytes=size)

    assert b"".join(pieces) == body
    assert ["a turn"] * turns == had
