"""Create the listening socket and bind it before any other part of the program starts."""

import os
import socket

BACKLOG = 2048  # connections that wait in the kernel to be accepted; uvicorn's default


class ServerError(Exception):
    """Raised if the server cannot start or stops on its own. The message is one sentence for the operator."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket that is bound to *host* and *port* but does not listen yet.

    If *shared* is true, other processes of this user may bind the port too. The kernel then distributes new clients
    among the processes.

    Raises:
        ServerError: if the port is in use, or the host is not an address of this machine.
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
    """Return the URL of *listener*, which consists of *host* as configured and the port that was actually bound."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
