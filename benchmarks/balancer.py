"""HAProxy that distributes requests over several gateways in turn, and the Redis store that the gateways share."""

import shutil
from collections.abc import Sequence
from urllib.parse import urlsplit

from benchmarks.processes import Child, ChildFailedError, Processes, free_port

CONFIG = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout check 10s
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response
frontend clients
    bind 127.0.0.1:{port}
    default_backend gateways
backend gateways
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    default-server check inter 500ms fall 1 rise 1
{servers}
"""
HAPROXY_PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
REDIS_PROGRAMS = ("redis-server", "valkey-server")


def start_haproxy(processes: Processes, gateway_urls: Sequence[str], *, places: str = HAPROXY_PLACES) -> str:
    """Start HAProxy, which is searched for in *places*, and return its URL.

    As in usual deployments, HAProxy sends unanswered requests to another gateway if one fails.

    Raises:
        ChildFailedError: if HAProxy is not installed or does not start.
    """
    program = shutil.which("haproxy", path=places)
    if program is None:
        raise ChildFailedError("haproxy is not installed")
    port = free_port()
    servers = "\n".join(f"    server g{place} {urlsplit(url).netloc}" for place, url in enumerate(gateway_urls))
    config = processes.directory / f"haproxy-{port}.cfg"
    config.write_text(CONFIG.format(port=port, servers=servers))
    processes.start(f"haproxy-{port}", [program, "-db", "-f", str(config)]).wait_for_port(port)
    return f"http://127.0.0.1:{port}"


def start_redis(processes: Processes, *, programs: Sequence[str] = REDIS_PROGRAMS) -> str:
    """Start a new Redis store, using the first installed program of *programs*, and return its address. The store keeps
    nothing on disk.

    Raises:
        ChildFailedError: if neither Redis nor Valkey is installed, or the program does not start.
    """
    return Redis(processes, is_kept=False, programs=programs).url


class Redis:
    """Redis servers, one after the other on the same port. With *is_kept*, a new server has all acknowledged data."""

    def __init__(self, processes: Processes, *, is_kept: bool, programs: Sequence[str] = REDIS_PROGRAMS) -> None:
        """Start Redis. Raises ChildFailedError if Redis and Valkey are not installed, or the program does not start."""
        program = next(filter(None, map(shutil.which, programs)), None)
        if program is None:
            raise ChildFailedError("neither redis-server nor valkey-server is installed")
        port = free_port()
        keeping = ["--appendonly", "yes", "--appendfsync", "always"] if is_kept else ["--appendonly", "no"]
        folder = processes.directory / f"redis-{port}"
        folder.mkdir()
        flags = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", *keeping, "--dir", str(folder)]
        self.url = f"redis://127.0.0.1:{port}/0"
        self._command = [program, *flags]
        self._port = port
        self._processes = processes
        self._lives = 0
        self._child = self._start()

    def kill(self) -> None:
        """Kill Redis with SIGKILL."""
        self._child.process.kill()
        self._child.process.wait()

    def restart(self) -> None:
        """Restart Redis. Raises ChildFailedError if Redis does not start."""
        self._child = self._start()

    def _start(self) -> Child:
        self._lives += 1
        child = self._processes.start(f"redis-{self._port}-{self._lives}", self._command)
        child.wait_for_port(self._port)
        return child
