"""Discovery of workers by DNS lookups."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from gateway.protocol.worker_address import id_of_address
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.discovery_status import DiscoveryStatus, SourceStatus
from gateway.workers.discovery.found import url_of
from gateway.workers.discovery.source import DiscoveryTools, OnRefused, WorkerSource
from gateway.workers.worker_spec import Role, WorkerSpec

PATIENCE_S: Final = 5.0
"""Maximum seconds to wait for one DNS answer. The value equals the default timeout per server in resolv.conf."""
EMPTY_ANSWERS: Final = 3
"""Number of consecutive empty DNS answers before all workers are removed. A starting resolver returns such answers."""

Ask = Callable[[str], Sequence[str]]


class NameUnanswered(Exception):
    """The DNS resolver could not answer the query."""


def resolve(name: str) -> Sequence[str]:
    """Return the IPv4 and IPv6 addresses of *name*, or an empty list if the name does not exist. This function blocks.

    Raises:
        NameUnanswered: if the system resolver did not answer.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as fault:
        if fault.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
            return ()
        raise NameUnanswered(str(fault.strerror)) from None
    except (OSError, UnicodeError) as fault:
        raise NameUnanswered(type(fault).__name__) from None
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class DnsSource:
    """DNS name whose addresses are the addresses of workers."""

    kind: ClassVar[str] = "dns"
    name: str
    port: int
    interval_s: float = 5.0
    role: Role = "both"
    ranks: int = 1

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:  # noqa: ARG002
        return DnsDiscovery(source, self, discovery_status=tools.discovery_status)


class DnsDiscovery:
    """Regular lookup of a DNS name. Implements `gateway.workers.discovery.discovery.Discovery`.

    The last set of workers stays in use while the resolver does not answer. An empty answer is applied after it was
    repeated *EMPTY_ANSWERS* times. DNS does not report that a worker terminates or that a new worker reuses an address;
    health checks detect this.

    *ask* runs in a thread, because a DNS query cannot be canceled. A query that hangs occupies one thread, and the next
    query starts only after it returns.
    """

    def __init__(
        self,
        source: WorkerSource,
        name: DnsSource,
        *,
        discovery_status: DiscoveryStatus,
        ask: Ask = resolve,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._source = source
        self._name = name
        self._discovery_status = discovery_status
        self._ask = ask
        self._patience_s = patience_s

    async def watch(self) -> AsyncGenerator[tuple[WorkerSpec, ...], None]:
        loop = asyncio.get_running_loop()
        last: tuple[WorkerSpec, ...] | None = None
        empty = 0
        with self._discovery_status.of(self._source) as source_status:
            while True:
                asking = loop.run_in_executor(None, self._ask, self._name.name)
                workers = await self._answer(asking, source_status)
                if workers is not None:
                    empty = 0 if workers else empty + 1
                    source_status.heard(len(workers))
                if workers == () and last and empty < EMPTY_ANSWERS:
                    workers = last
                if last is None or (workers is not None and workers != last):
                    last = workers or ()
                    yield last
                await asyncio.wait({asking})
                await asyncio.sleep(self._name.interval_s)

    async def _answer(
        self, asking: asyncio.Future[Sequence[str]], source_status: SourceStatus
    ) -> tuple[WorkerSpec, ...] | None:
        """Return the workers in the DNS answer, or None if the resolver did not answer."""
        await asyncio.wait({asking}, timeout=self._patience_s)
        if not asking.done():
            source_status.failed(f"the resolver did not answer within {self._patience_s:g} s")
            return None
        try:
            addresses = asking.result()
        except NameUnanswered as fault:
            source_status.failed(f"the resolver failed: {fault}")
            return None
        urls = sorted({url_of(address, self._name.port) for address in addresses})
        return tuple(WorkerSpec(url, id_of_address(url), ranks=self._name.ranks, role=self._name.role) for url in urls)
