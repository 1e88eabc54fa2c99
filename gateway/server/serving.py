"""The gateway, served until SIGINT or SIGTERM."""

import contextlib
import logging
import socket
import sys
from collections.abc import Callable

from gateway.server.asgi import App
from gateway.server.collector import set_up_for_serving
from gateway.server.listener import address_of, bind
from gateway.server.on_granian import run_on_granian
from gateway.server.on_uvicorn import run_on_uvicorn
from gateway.settings import Settings

CreateApp = Callable[[Settings], App]
Announce = Callable[[str], None]
"""Told the address, once, when connections are accepted."""


def announce_on_stdout(address: str) -> None:
    """Print the line that people and programs wait for."""
    sys.stdout.write(f"ready: {address}\n")
    sys.stdout.flush()


def serve(
    settings: Settings,
    *,
    create_app: CreateApp | None = None,
    bound: socket.socket | None = None,
    announce: Announce = announce_on_stdout,
) -> None:
    """Run the gateway until SIGINT or SIGTERM; the second SIGINT does not wait for running requests.

    *bound* is what `bind` gave, for a caller that has to know the port before; it is closed in every case.

    Raises:
        ServerError: it cannot start.
    """
    server = settings.server
    _log_to_stderr(settings.logging.level)
    with contextlib.closing(bound or bind(server.host, server.port)) as listener:
        app = (create_app or _gateway_app())(settings)
        address = address_of(listener, server.host)
        run = run_on_granian if server.implementation == "granian" else run_on_uvicorn
        with set_up_for_serving():
            run(app, settings, listener, lambda: announce(address))


def _log_to_stderr(level: str) -> None:
    """What the process itself has to say; request lines go to stdout. Logging that is set up already is left alone."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "httpcore"):  # a line for every health check
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _gateway_app() -> CreateApp:
    from gateway import app  # noqa: PLC0415 - the composition root is not needed where an app is given

    return app.create_app
