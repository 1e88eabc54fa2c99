"""Workers at the addresses of a name in DNS."""

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
"""Longest wait for one answer; resolv.conf's own is 5 s for each of its servers."""
EMPTY_ANSWERS: Final = 3
"""Answers in a row before a name has no address: a resolver that starts, or lost its cluster, denies every name."""

Ask = Callable[[str], Sequence[str]]


class NameUnanswered(Exception):
    """The resolver could not answer."""


def resolve(name: str) -> Sequence[str]:
    """Return the addresses of *name*, IPv4 and IPv6, by the machine's resolver; none if there is no such name. It
    blocks.

    Raises:
        NameUnanswered: the resolver did not answer.
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
    """Addresses of a name in DNS."""

    kind: ClassVar[str] = "dns"
    name: str
    port: int
    interval_s: float = 5.0
    role: Role = "both"
    ranks: int = 1

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:  # noqa: ARG002
        """See `SourceSpec.discovery`."""
        return DnsDiscovery(source, self, discovery_status=tools.discovery_status)


class DnsDiscovery:
    """Asks again each `interval_s`; implements `gateway.workers.discovery.discovery.Discovery`.

    The last set stays while the resolver does not answer, and until it has denied the name *EMPTY_ANSWERS* times in a
    row. DNS reports neither workers that are about to end nor new ones at an old address: health checks find out.

    *ask* runs in a thread. A resolver cannot be interrupted: one that hangs keeps one thread, and is not asked again
    before it answers.
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
        """See `Discovery.watch`."""
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
        """Return the workers in the answer; None if there was no answer."""
        await asyncio.wait({asking}, timeout=self._patience_s)
        if not asking.done():
            source_status.failed(f"the resolver said nothing for {self._patience_s:g} s")
            return None
        try:
            addresses = asking.result()
        except NameUnanswered as fault:
            source_status.failed(f"the resolver says: {fault}")
            return None
        urls = sorted({url_of(address, self._name.port) for address in addresses})
        return tuple(WorkerSpec(url, id_of_address(url), ranks=self._name.ranks, role=self._name.role) for url in urls)
