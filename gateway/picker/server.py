"""gRPC server of the endpoint picker."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gateway.picker.certificate import self_signed_context
from gateway.picker.certificate_files import CertificateFiles
from gateway.picker.health import CHECK, WATCH, HealthService
from gateway.picker.http2.call import UNIMPLEMENTED, GrpcCall, Handler
from gateway.picker.http2.connection import Connection, Opened
from gateway.picker.http2.open_connections import OpenConnections
from gateway.picker.listener import Listener
from gateway.picker.picker import PROCESS, Picker
from gateway.picker.rules import PickerRules
from gateway.protocol.headers import Headers
from gateway.server.listener import ServerError, bind
from gateway.server.stop import Stop

_MESSAGE_OVERHEAD: Final = 2**20
"""Bytes of a message in addition to the body, for the headers and Envoy's metadata."""
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Options that find clients whose machine has failed, after two minutes."""


@asynccontextmanager
async def serving(
    picker: Picker, rules: PickerRules, announce: Callable[[str], None], stop: Stop
) -> AsyncIterator[None]:
    """Serve *picker* inside the context. *announce* gets the address as soon as the server accepts connections.

    When *stop* is requested, the health service reports it, so that Envoy chooses other pickers. Requests are served
    until the context ends.

    Raises:
        ServerError: if the address or the certificate cannot be used.
    """
    health = HealthService()
    loop = asyncio.get_running_loop()
    stop.on_request(lambda: None if loop.is_closed() else loop.call_soon_threadsafe(health.stop))
    connections = OpenConnections()
    max_message_bytes = rules.max_body_bytes + _MESSAGE_OVERHEAD
    context = _tls(rules)
    bound = _bound(rules.listen)
    async with asyncio.TaskGroup() as tasks:
        opened = _opener(picker, health, tasks)
        listener = Listener(
            bound, lambda: Connection(opened, connections, max_message_bytes=max_message_bytes), context
        )
        listener.start(tasks)
        announce(f"{rules.listen.rpartition(':')[0]}:{bound.getsockname()[1]}")
        try:
            yield
        finally:
            health.stop()
            listener.close()
            await connections.close(rules.grace_s)


def _opener(picker: Picker, health: HealthService, tasks: asyncio.TaskGroup) -> Opened:
    """Return the function that finds the handler of a call by the path in its headers."""

    def opened(call: GrpcCall, headers: Headers) -> Handler | None:
        path = next((value for name, value in headers if name == b":path"), b"")
        if path == PROCESS:
            return picker.open(call, tasks)
        if path == CHECK:
            return health.check(call)
        if path == WATCH:
            return health.watch(call)
        call.finish(UNIMPLEMENTED, "the picker does not know this method")
        return None

    return opened


def _tls(rules: PickerRules) -> Callable[[], ssl.SSLContext]:
    """Return the function that returns the TLS settings for a new connection.

    Raises:
        ServerError: if the files of the certificate cannot be used.
    """
    if rules.certificate is None or rules.key is None:
        own = self_signed_context()
        return lambda: own
    try:
        return CertificateFiles(rules.certificate, rules.key).context
    except OSError as fault:  # includes errors of TLS
        text = f"Cannot use the certificate {rules.certificate} with the key {rules.key}: {fault.strerror or fault}"
        raise ServerError(f"{text} (picker.certificate_file).") from fault


def _bound(address: str) -> socket.socket:
    """Return the socket of *address*.

    Raises:
        ServerError: if the address cannot be used.
    """
    host, _, port = address.rpartition(":")
    try:
        bound = bind(host.strip("[]"), int(port))
    except ServerError as fault:
        raise ServerError(f"{str(fault).removesuffix('.')} (picker.listen).") from fault
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return bound
