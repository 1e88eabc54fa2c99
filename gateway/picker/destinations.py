"""Addresses of workers in the form in which Envoy knows its endpoints: an IP address and a port."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from cache_index import WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.protocol.errors import ConnectFailed

KEPT_S = 30.0
"""Seconds for which a resolved host name is used. Endpoints of Kubernetes have IP addresses instead."""
MAX_NAMES = 4096
"""Maximum number of resolved host names to keep."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Destinations:
    """Endpoints of workers. Host names are resolved and kept for `KEPT_S`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._resolved: dict[str, tuple[str, float]] = {}

    async def resolve(self, urls: Iterable[str]) -> None:
        """Resolve the host names in *urls* whose addresses are not known."""
        for url in urls:
            host, port = _place(url)
            if self._known(host, port) is None:
                try:
                    await self._look_up(host, port)
                except ConnectFailed:
                    continue  # `of` reports it if the worker is chosen

    async def of(self, worker: WorkerBackend) -> str:
        """Return the endpoint of *worker*.

        Raises:
            ConnectFailed: if its host name cannot be resolved.
        """
        host, port = _place(worker.url)
        return self._known(host, port) or await self._look_up(host, port)

    def known(self, worker: WorkerBackend) -> str | None:
        """Return the endpoint of *worker*, or None if its host name is not resolved."""
        return self._known(*_place(worker.url))

    def worker_at(self, endpoint: str, workers: Mapping[WorkerId, WorkerBackend]) -> WorkerId | None:
        """Return the worker at *endpoint*, or None unless exactly one worker is there. Ranks can share an address."""
        found = [worker for worker, backend in workers.items() if self.known(backend) == endpoint]
        return found[0] if len(found) == 1 else None

    def _known(self, host: str, port: int) -> str | None:
        direct = _as_address(host)
        if direct is not None:
            return f"{direct}:{port}"
        kept = self._resolved.get(host)
        return None if kept is None or kept[1] < self._clock() else f"{kept[0]}:{port}"

    async def _look_up(self, host: str, port: int) -> str:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port)
        except OSError as error:
            raise ConnectFailed(f"The host name {host!r} of a worker cannot be resolved: {error.strerror}") from None
        address = _as_address(str(found[0][4][0]))
        assert address is not None, "getaddrinfo returns addresses"
        if len(self._resolved) >= MAX_NAMES:
            self._resolved.clear()
        self._resolved[host] = (address, self._clock() + KEPT_S)
        return f"{address}:{port}"


@lru_cache(maxsize=MAX_NAMES)
def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]


@lru_cache(maxsize=MAX_NAMES)
def _as_address(host: str) -> str | None:
    """Return the IP address *host* as it appears before a port, or None if *host* is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return f"[{address}]" if address.version == 6 else str(address)
