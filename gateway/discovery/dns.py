"""Workers that a name in DNS has as its addresses."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from gateway.discovery.found import url_of
from gateway.discovery.sightings import Sighting, Sightings
from gateway.discovery.source import Source
from gateway.settings import DnsSettings, WorkerSettings

PATIENCE_S: Final = 5.0
"""For one answer; resolv.conf's own is 5 s for each of its servers."""
EMPTY_ANSWERS: Final = 3
"""In a row before a name has no address: a resolver that starts, or has lost its cluster, says that of every name."""

Ask = Callable[[str], Sequence[str]]


class NameUnanswered(Exception):
    """Nobody knows at this moment what addresses the name has."""


def resolve(name: str) -> Sequence[str]:
    """The addresses of *name*, IPv4 and IPv6, by the machine's resolver; none if there is no such name. It blocks.

    Raises:
        NameUnanswered: the resolver says so.
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


class DnsDiscovery:
    """Asks again each `interval_s`; implements `gateway.discovery.discovery.Discovery`.

    While nobody answers the last set stays; so it does while a name is said to have no address, until that was said
    *EMPTY_ANSWERS* times in a row. DNS tells neither who ends nor who is new at an address: health checks do.

    *ask* gets a thread. A resolver cannot be interrupted: one that hangs has one thread, and is not asked again before
    it answers.
    """

    def __init__(
        self,
        source: Source,
        settings: DnsSettings,
        *,
        sightings: Sightings,
        ask: Ask = resolve,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._source = source
        self._settings = settings
        self._sightings = sightings
        self._ask = ask
        self._patience_s = patience_s

    async def watch(self) -> AsyncGenerator[tuple[WorkerSettings, ...], None]:
        """See `Discovery.watch`."""
        loop = asyncio.get_running_loop()
        last: tuple[WorkerSettings, ...] | None = None
        empty = 0
        with self._sightings.of(self._source) as sighting:
            while True:
                asking = loop.run_in_executor(None, self._ask, self._settings.name)
                workers = await self._answer(asking, sighting)
                if workers is not None:
                    empty = 0 if workers else empty + 1
                    sighting.heard(len(workers))
                if workers == () and last and empty < EMPTY_ANSWERS:
                    workers = last
                if last is None or (workers is not None and workers != last):
                    last = workers or ()
                    yield last
                await asyncio.wait({asking})
                await asyncio.sleep(self._settings.interval_s)

    async def _answer(
        self, asking: asyncio.Future[Sequence[str]], sighting: Sighting
    ) -> tuple[WorkerSettings, ...] | None:
        """None: there is none."""
        await asyncio.wait({asking}, timeout=self._patience_s)
        if not asking.done():
            sighting.failed(f"the resolver said nothing for {self._patience_s:g} s")
            return None
        try:
            addresses = asking.result()
        except NameUnanswered as fault:
            sighting.failed(f"the resolver says: {fault}")
            return None
        urls = sorted({url_of(address, self._settings.port) for address in addresses})
        return tuple(WorkerSettings(url=url, ranks=self._settings.ranks, role=self._settings.role) for url in urls)
