"""Serve one gateway with several processes: the part of the supervisor, and that of a process."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gateway.app.announcements import announcements
from gateway.app.processes.rules import ProcessRules
from gateway.app.processes.store_server import StoreServer, server_program
from gateway.app.processes.supervisor import Plan, seats_of, supervised
from gateway.server.admin_port import listening
from gateway.server.listener import ServerError, address_of, bind
from gateway.storage.file_lock import FileLock, FileTaken
from gateway.tenancy.quota.meter_table import MeterTable, new_table

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

    *initialize* is the command that initializes a new store server. If *has_store_server* is true, the supervisor runs
    the server at the configured Unix socket. Without a configured store, the processes use a temporary file.

    Raises:
        ServerError: if the gateway cannot start.
    """
    with ExitStack() as exits:
        store = _store_of(rules, exits, has_store_server=has_store_server)
        listeners = _bound(exits, rules)
        admin = None if rules.admin is None else exits.enter_context(listening(*rules.admin))
        probes = None if rules.probes is None else exits.enter_context(listening(*rules.probes))
        announce, announce_admin = announcements(is_json=rules.is_log_json)
        address = address_of(listeners[0], rules.host)
        admin_address = None if admin is None or rules.admin is None else address_of(admin, rules.admin[0])

        def started() -> None:
            if admin_address is not None:
                announce_admin(admin_address)
            announce(address)

        def initialized() -> None:
            done = subprocess.run(initialize, env=environ, stdout=sys.stderr, check=False)  # noqa: S603
            if done.returncode:
                raise ServerError("The store could not be initialized. Its error is logged above.")

        plan = Plan(
            command=command,
            listeners=listeners,
            admin=admin,
            probes=probes,
            variables=lambda number: rules.variables_of(number, store.url),
            is_store_hidden=rules.store_url is None,
            table=store.table,
            lock=store.lock,
            stop_s=rules.stop_s,
            validate=validate,
            on_started=started,
        )
        asyncio.run(supervised(plan, store.server, initialized))


@dataclass(frozen=True, slots=True)
class _Store:
    """Store of several processes, and how they use it."""

    server: StoreServer | None = None
    """Server that the supervisor has to run as the store."""
    url: str | None = None
    """URL that replaces the configured store, or None to keep it."""
    table: MeterTable | None = None
    """Table of limits if the store is a file."""
    lock: int | None = None
    """File descriptor of the lock of the configured file."""


def _store_of(rules: ProcessRules, exits: ExitStack, *, has_store_server: bool) -> _Store:
    """Return what the processes share. *exits* removes temporary data.

    Raises:
        ServerError: if there is no server program, if another gateway uses the file, or if the configured store is not
            at a Unix socket.
    """
    url = rules.store_url
    if has_store_server:
        if url is None:
            raise ServerError("--store-server needs store.url. Set store.url to unix://PATH, the socket of the server.")
        path = url.removeprefix(UNIX)
        if path == url or "?" in path or not path.startswith("/"):
            raise ServerError("--store-server needs a store.url of the form unix://PATH, with an absolute path.")
        return _Store(StoreServer(server_program(), Path(path)))
    if url is not None and rules.store_file is None:
        return _Store()
    table = new_table(seats_of(rules.processes))
    exits.callback(os.close, table.descriptor)
    if rules.store_file is None:
        folder = tempfile.mkdtemp(prefix="warmgate-")
        exits.callback(shutil.rmtree, folder, ignore_errors=True)
        return _Store(url=f"sqlite:///{folder}/warmgate.db", table=table)
    return _Store(table=table, lock=_lock(rules.store_file, exits))


def _lock(path: Path, exits: ExitStack) -> int:
    """Lock the SQLite file *path* for this gateway until *exits* ends, and return the descriptor of the lock.

    Raises:
        ServerError: if another gateway uses the file, or if there is no such folder.
    """
    try:
        lock = FileLock(path)
    except FileTaken:
        raise ServerError(f"store.url: {path} is in use by another gateway.") from None
    except OSError as fault:
        raise ServerError(f"store.url: {path} cannot be used: {fault.strerror}.") from None
    exits.callback(lock.release)
    return lock.descriptor


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
