"""The socket that the server listens on, bound before anything else starts."""

import os
import socket

BACKLOG = 2048  # connections the kernel holds until they are accepted; uvicorn's own default


class ServerError(Exception):
    """The server cannot start, or ended by itself; the message is one sentence for the operator."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket bound to *host* and *port*, not yet listening.

    *shared*: others of the same user that bind it so may listen there as well; the kernel deals clients out to them.

    Raises:
        ServerError: the port is taken, or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as fault:
        raise ServerError(f"Cannot listen on {host}: {fault.strerror}.") from fault
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError as fault:
        bound.close()
        raise ServerError(f"Cannot listen on {host} port {port}: {os.strerror(fault.errno or 0)}.") from fault
    return bound


def address_of(listener: socket.socket, host: str) -> str:
    """The address to call, with *host* as it was configured and the real port."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
