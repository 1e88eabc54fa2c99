"""gRPC server of the endpoint picker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from gateway.picker.health import HealthService
from gateway.picker.picker import Picker
from gateway.picker.rules import PickerRules
from gateway.server.listener import ServerError

_MESSAGE_OVERHEAD = 2**20
"""Bytes of a message in addition to the body, for the headers and Envoy's metadata."""


@asynccontextmanager
async def serving(picker: Picker, rules: PickerRules, announce: Callable[[str], None]) -> AsyncIterator[None]:
    """Serve *picker* inside the context. *announce* gets the address as soon as the server accepts connections.

    Raises:
        ServerError: if the address cannot be used.
    """
    health = HealthService()
    server = grpc.aio.server(options=_options(rules))
    port = _bound(server, rules.listen)
    async with asyncio.TaskGroup() as tasks:
        server.add_generic_rpc_handlers((picker.handler(tasks), health.handler()))
        await server.start()
        announce(f"{rules.listen.rpartition(':')[0]}:{port}")
        try:
            yield
        finally:
            health.stop()
            await server.stop(rules.grace_s)


def _options(rules: PickerRules) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", rules.max_body_bytes + _MESSAGE_OVERHEAD),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
    ]


def _bound(server: Any, address: str) -> int:
    """Open the port of *address*, and return its number, which is chosen by the system if it is 0."""
    try:
        port: int = server.add_insecure_port(address)
    except RuntimeError as fault:
        raise ServerError(f"Cannot listen on {address} (picker.listen).") from fault
    return port
