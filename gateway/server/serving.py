"""The gateway, served until SIGINT or SIGTERM."""

import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from gateway.server.admin_port import listening, with_admin_port
from gateway.server.asgi import App
from gateway.server.collector import set_up_for_serving
from gateway.server.listener import ServerError, address_of, bind
from gateway.server.on_granian import run_on_granian
from gateway.server.on_uvicorn import limits_of, run_on_uvicorn
from gateway.server.stop import Stop, telling
from gateway.settings import Settings

CreateApp = Callable[[Settings], App]
"""Makes the application; one that has an attribute ``admin`` brings another one, for ``admin.port``."""
Announce = Callable[[str], None]
"""Told the address, once, when connections are accepted."""


def announce_on_stdout(address: str) -> None:
    """Print the line that people and programs wait for."""
    sys.stdout.write(f"ready: {address}\n")
    sys.stdout.flush()


def announce_admin_on_stdout(address: str) -> None:
    """Print where the admin routes are. The line before `ready:`."""
    sys.stdout.write(f"admin: {address}\n")


def serve(
    settings: Settings,
    *,
    create_app: CreateApp | None = None,
    bound: socket.socket | None = None,
    announce: Announce = announce_on_stdout,
    announce_admin: Announce = announce_admin_on_stdout,
) -> None:
    """Run the gateway until SIGINT or SIGTERM; a SIGINT after either does not wait for running requests.

    After SIGTERM requests are still taken for ``server.stop_delay_s``, then those that run have
    ``server.shutdown_grace_s`` to end.

    *bound* is what `bind` gave, for a caller that has to know the port before; it is closed in every case.
    *announce_admin* is told the address of the admin routes, just before *announce*, where they have a port.

    Raises:
        ServerError: it cannot start.
    """
    server = settings.server
    _log_to_stderr(settings.logging.level)
    with contextlib.closing(bound or bind(server.host, server.port)) as listener, _admin_listener(settings) as second:
        app = (create_app or _gateway_app())(settings)
        address = address_of(listener, server.host)
        if second is not None:
            app = with_admin_port(app, _admin_of(app), second, limits_of(server), grace_s=server.shutdown_grace_s)

        def started() -> None:
            if second is not None:
                announce_admin(address_of(second, _admin_host(settings)))
            announce(address)

        run = run_on_granian if server.implementation == "granian" else run_on_uvicorn
        stop = Stop(delay_s=server.stop_delay_s, clock=time.monotonic)
        with set_up_for_serving():
            run(telling(app, stop), settings, listener, started, stop)


def _admin_listener(settings: Settings) -> AbstractContextManager[socket.socket | None]:
    """Bound, and listening, before anything starts; None: the admin routes have no port of their own."""
    port = settings.admin.port
    return contextlib.nullcontext() if port is None else listening(_admin_host(settings), port)


def _admin_of(app: App) -> App:
    admin: App | None = getattr(app, "admin", None)
    if admin is None:
        raise ServerError("admin.port is set, but this application has no admin routes.")
    return admin


def _admin_host(settings: Settings) -> str:
    return settings.admin.host or settings.server.host


def _log_to_stderr(level: str) -> None:
    """What the process itself has to say; request lines go to stdout. Logging that is set up already is left alone."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "httpcore"):  # a line for every health check
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _gateway_app() -> CreateApp:
    from gateway import app  # noqa: PLC0415 - the composition root is not needed where an app is given

    return app.create_app
