"""Run the gateway until SIGINT or SIGTERM."""

import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from gateway.app import application
from gateway.app.mapping.surroundings import limits_of, serving_options
from gateway.server.admin_port import listening, with_admin_port
from gateway.server.asgi import App
from gateway.server.descriptors import clients_within, preallocate, raise_limit, table_size
from gateway.server.listener import ServerError, address_of, bind
from gateway.server.on_uvicorn import run_on_uvicorn
from gateway.server.process_tuning import ready_to_serve
from gateway.server.program_log import event_line, log_to_stderr
from gateway.server.start import StartWatcher
from gateway.server.stop import SCOPE_KEY, Stop, with_stop
from gateway.settings import ServerSettings, Settings, SettingsError

_log = logging.getLogger(__name__)

CreateApp = Callable[[Settings], App]
"""Function that builds the application from settings.

Its attributes ``admin`` and ``probes`` are the applications for ``admin.port`` and ``server.probes_port``.
"""
Announce = Callable[[str], None]
"""Function that is called once with the gateway's address as soon as the gateway accepts connections."""


def announce_on_stdout(address: str) -> None:
    """Print the line with the gateway's address, which shows that the gateway is ready."""
    sys.stdout.write(f"ready: {address}\n")
    sys.stdout.flush()


def announce_admin_on_stdout(address: str) -> None:
    """Print the address of the admin routes. This line comes before the `ready:` line."""
    sys.stdout.write(f"admin: {address}\n")


def announce_picker_on_stdout(address: str) -> None:
    """Print the address of the endpoint picker. This line comes before the `ready:` line."""
    sys.stdout.write(f"picker: {address}\n")


def announcing(event: str) -> Announce:
    """Return a function that writes an address to stdout as a JSON line with the event name *event*."""

    def announce(address: str) -> None:
        sys.stdout.write(f"{event_line(event, address=address)}\n")
        sys.stdout.flush()

    return announce


def serve(
    settings: Settings,
    *,
    create_app: CreateApp | None = None,
    bound: socket.socket | None = None,
    announce: Announce | None = None,
    announce_admin: Announce | None = None,
    stop: Stop | None = None,
) -> None:
    """Run the gateway until SIGINT or SIGTERM.

    A SIGINT that follows either signal does not wait for running requests.

    After SIGTERM the gateway accepts requests for another ``server.stop_delay_s``. Running requests then have
    ``server.shutdown_grace_s`` to finish.

    *bound* is a socket that `bind` returned, for a caller that must know the port in advance. The socket is always
    closed. If the admin routes have a separate port, *announce_admin* gets its address just before *announce* is
    called. By default both write to stdout, as JSON if `logging.format` is json. *stop* is a result of `stop_of`.

    Raises:
        ServerError: if the gateway cannot start.
        SettingsError: if the settings turn out to be invalid during the start.
    """
    stop = stop or stop_of(settings)
    log_to_stderr(settings.logging.level, settings.logging.format)
    is_json = settings.logging.format == "json"
    announce = announce or (announcing("ready") if is_json else announce_on_stdout)
    announce_admin = announce_admin or (announcing("admin") if is_json else announce_admin_on_stdout)
    server = _within_descriptors(settings.server)
    with (
        contextlib.closing(bound or bind(server.host, server.port, shared=server.reuse_port)) as listener,
        _admin_listener(settings) as second,
        _probes_listener(settings) as third,
    ):
        gateway = app = (create_app or application.create_app)(settings)
        address = address_of(listener, server.host)
        limits, state, grace_s = limits_of(server), {SCOPE_KEY: stop}, server.shutdown_grace_s
        if second is not None:
            app = with_admin_port(app, _admin_of(gateway), second, limits, grace_s=grace_s, state=state)
        if third is not None:
            app = with_admin_port(app, _probes_of(gateway), third, limits, grace_s=grace_s, state=state)

        def started() -> None:
            if second is not None:
                announce_admin(address_of(second, _admin_host(settings)))
            announce(address)

        start = StartWatcher(SettingsError)
        with ready_to_serve():
            try:
                run_on_uvicorn(
                    with_stop(app, stop, start.watch(app)),
                    serving_options(settings.model_copy(update={"server": server})),
                    listener,
                    started,
                    stop,
                )
            except ServerError as error:
                raise start.fault(error) from None


def stop_of(settings: Settings) -> Stop:
    """Return the state of the stop of a gateway with *settings*."""
    return Stop(delay_s=settings.server.stop_delay_s, clock=time.monotonic)


def _within_descriptors(server: ServerSettings) -> ServerSettings:
    """Return *server* with max_connections lowered to the open file limit. Preallocate the file descriptor table."""
    limit, wanted = raise_limit(), server.max_connections
    fits = clients_within(limit, wanted)
    preallocate(table_size(fits, limit))
    if fits == wanted:
        return server
    # Who has set nothing has nothing to mend: the default is more than most machines see.
    level = logging.WARNING if "max_connections" in server.model_fields_set else logging.DEBUG
    _log.log(
        level,
        "This process can open at most %s files (ulimit -Hn), so server.max_connections is %d instead of %d.",
        limit,
        fits,
        wanted,
    )
    return server.model_copy(update={"max_connections": fits})


def _admin_listener(settings: Settings) -> AbstractContextManager[socket.socket | None]:
    """Open the socket of the admin port before anything else starts. Yield None without a separate admin port."""
    port = settings.admin.port
    return contextlib.nullcontext() if port is None else listening(_admin_host(settings), port)


def _admin_of(app: App) -> App:
    admin: App | None = getattr(app, "admin", None)
    if admin is None:
        raise ServerError("admin.port is set, but this application has no admin routes.")
    return admin


def _probes_listener(settings: Settings) -> AbstractContextManager[socket.socket | None]:
    """Open the socket of the probes port before anything else starts. Yield None without a separate probes port."""
    port = settings.server.probes_port
    return contextlib.nullcontext() if port is None else listening(settings.server.host, port)


def _probes_of(app: App) -> App:
    probes: App | None = getattr(app, "probes", None)
    if probes is None:
        raise ServerError("server.probes_port is set, but this application has no probes of its own.")
    return probes


def _admin_host(settings: Settings) -> str:
    return settings.admin.host or settings.server.host
