"""Serve one gateway with several processes: the part of the supervisor, and that of a process."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from gateway.app.announcements import announcements
from gateway.app.processes.rules import ProcessRules
from gateway.app.processes.store_server import StoreServer, server_program
from gateway.app.processes.supervisor import Plan, supervised
from gateway.server.admin_port import listening
from gateway.server.listener import ServerError, address_of, bind

UNIX = "unix://"


def serve_processes(
    rules: ProcessRules,
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    initialize: Sequence[str],
    has_store_server: bool,
    validate: Callable[[], bool],
) -> None:
    """Run the processes of a gateway, each with *command*, until SIGINT or SIGTERM.

    *initialize* is the command that initializes a new store. If *has_store_server* is true, the supervisor runs the
    server at the configured Unix socket. Without a configured store, it always runs a server, whose data it deletes at
    the end.

    Raises:
        ServerError: if the gateway cannot start.
    """
    with ExitStack() as exits:
        store = exits.enter_context(_store_server(rules, has_store_server=has_store_server))
        listeners = _bound(exits, rules)
        admin = None if rules.admin is None else exits.enter_context(listening(*rules.admin))
        probes = None if rules.probes is None else exits.enter_context(listening(*rules.probes))
        announce, announce_admin = announcements(is_json=rules.is_log_json)
        address = address_of(listeners[0], rules.host)
        admin_address = None if admin is None or rules.admin is None else address_of(admin, rules.admin[0])
        store_url = store.url if store is not None else None

        def started() -> None:
            if admin_address is not None:
                announce_admin(admin_address)
            announce(address)

        def initialized() -> None:
            variables = {} if store_url is None else {"WARMGATE_STORE__URL": store_url}
            done = subprocess.run(initialize, env={**environ, **variables}, stdout=sys.stderr, check=False)  # noqa: S603
            if done.returncode:
                raise ServerError("The store could not be initialized. Its error is logged above.")

        plan = Plan(
            command=command,
            listeners=listeners,
            admin=admin,
            probes=probes,
            variables=lambda number: rules.variables_of(number, store_url),
            is_store_hidden=rules.store_url is None,
            stop_s=rules.stop_s,
            validate=validate,
            on_started=started,
        )
        asyncio.run(supervised(plan, store, initialized))


@contextlib.contextmanager
def _store_server(rules: ProcessRules, *, has_store_server: bool) -> Iterator[StoreServer | None]:
    """Yield the server that the supervisor has to run, or None if the processes use another store.

    Raises:
        ServerError: if there is no server program, or the configured store is not at a Unix socket.
    """
    if rules.store_url is None and has_store_server:
        raise ServerError("--store-server needs store.url. Set store.url to unix://PATH, the socket of the server.")
    if rules.store_url is None:
        folder = tempfile.mkdtemp(prefix="warmgate-")
        try:
            yield StoreServer(server_program(), Path(folder, "store"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if not has_store_server:
        yield None
        return
    path = rules.store_url.removeprefix(UNIX)
    if path == rules.store_url or "?" in path or not path.startswith("/"):
        raise ServerError("--store-server needs a store.url of the form unix://PATH, with an absolute path.")
    yield StoreServer(server_program(), Path(path))


def _bound(exits: ExitStack, rules: ProcessRules) -> list[socket.socket]:
    """Bind one socket for each process to the same port. If another program listens on the port, refuse.

    Raises:
        ServerError: if the port cannot be used.
    """
    port = rules.port
    if port:
        bind(rules.host, port).close()  # without SO_REUSEPORT, so that a foreign program on the port is noticed
    listeners: list[socket.socket] = []
    for _ in range(rules.processes):
        bound = exits.enter_context(contextlib.closing(bind(rules.host, port, shared=True)))
        bound.set_inheritable(True)
        port = bound.getsockname()[1]
        listeners.append(bound)
    return listeners
