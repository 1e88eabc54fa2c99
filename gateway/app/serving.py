"""Run the gateway until SIGINT or SIGTERM."""

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from gateway.app import application
from gateway.app.announcements import Announce, announcements
from gateway.app.mapping.surroundings import limits_of, serving_options
from gateway.server.admin_port import listening, with_admin_port
from gateway.server.asgi import App
from gateway.server.descriptors import clients_within, preallocate, raise_limit, table_size
from gateway.server.listener import ServerError, address_of, bind
from gateway.server.on_uvicorn import run_on_uvicorn
from gateway.server.process_tuning import ready_to_serve
from gateway.server.program_log import log_to_stderr
from gateway.server.start import StartWatcher
from gateway.server.stop import SCOPE_KEY, Stop, with_stop
from gateway.settings import ServerSettings, Settings, SettingsError

_log = logging.getLogger(__name__)

CreateApp = Callable[[Settings], App]
"""Function that builds the application from settings.

Its attributes ``admin`` and ``probes`` are the applications for ``admin.port`` and ``server.probes_port``.
"""


@dataclass(frozen=True, slots=True)
class Sockets:
    """Sockets that another process opened for this one. A port that this process does not serve has None."""

    main: socket.socket
    admin: socket.socket | None = None
    probes: socket.socket | None = None


def serve(
    settings: Settings,
    *,
    create_app: CreateApp | None = None,
    bound: socket.socket | None = None,
    opened: Sockets | None = None,
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
    *opened* are the sockets of one of several processes, which opens none.

    Raises:
        ServerError: if the gateway cannot start.
        SettingsError: if the settings turn out to be invalid during the start.
    """
    stop = stop or stop_of(settings)
    log_to_stderr(settings.logging.level, settings.logging.format)
    usual, usual_admin = announcements(is_json=settings.logging.format == "json")
    server = _within_descriptors(settings.server)
    with (
        contextlib.closing(_bound(server, bound, opened)) as listener,
        _admin_listener(settings, opened) as second,
        _probes_listener(settings, opened) as third,
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
                (announce_admin or usual_admin)(address_of(second, _admin_host(settings)))
            (announce or usual)(address)

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


def _bound(server: ServerSettings, bound: socket.socket | None, opened: Sockets | None) -> socket.socket:
    if opened is not None:
        return opened.main
    return bound or bind(server.host, server.port, shared=server.reuse_port)


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


def _admin_listener(settings: Settings, opened: Sockets | None) -> AbstractContextManager[socket.socket | None]:
    """Open the socket of the admin port before anything else starts. Yield None without a separate admin port."""
    if opened is not None:
        return contextlib.nullcontext(opened.admin)
    port = settings.admin.port
    return contextlib.nullcontext() if port is None else listening(_admin_host(settings), port)


def _admin_of(app: App) -> App:
    admin: App | None = getattr(app, "admin", None)
    if admin is None:
        raise ServerError("admin.port is set, but this application has no admin routes.")
    return admin


def _probes_listener(settings: Settings, opened: Sockets | None) -> AbstractContextManager[socket.socket | None]:
    """Open the socket of the probes port before anything else starts. Yield None without a separate probes port."""
    if opened is not None:
        return contextlib.nullcontext(opened.probes)
    port = settings.server.probes_port
    return contextlib.nullcontext() if port is None else listening(settings.server.host, port)


def _probes_of(app: App) -> App:
    probes: App | None = getattr(app, "probes", None)
    if probes is None:
        raise ServerError("server.probes_port is set, but this application has no probes of its own.")
    return probes


def _admin_host(settings: Settings) -> str:
    return settings.admin.host or settings.server.host
