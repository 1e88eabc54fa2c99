"""Keep one worker for each data-parallel rank and Dynamo instance, according to the reports of their addresses.

1. The settings are expanded with all known reports and are then applied as a whole.
2. If an address does not answer, its last workers stay in use. Health checks find out which of them are up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from gateway.workers.kv_events.connection import Network
from gateway.workers.rank_discovery.expansion import expanded, is_asked
from gateway.workers.shared_address.address_report import AddressReport
from gateway.workers.worker_spec import DynamoSpec, ModelWorkers, WorkersError, WorkerSpec

_log = logging.getLogger(__name__)

INTERVAL_S = 2.0
"""Seconds between two queries to a Dynamo frontend, or to an engine that has not answered yet."""
RARELY = 15
"""Number of intervals between two queries to an engine that has reported its ranks. Only a restart can change them."""


Put = Callable[[Sequence[ModelWorkers]], None]
"""Function that applies a set of workers, either all of them or none."""


class Probe(Protocol):
    """Interface for querying an address; see `gateway.workers.rank_discovery.address_probe.AddressProbe`."""

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSpec | None, model: str
    ) -> AddressReport | None: ...


@dataclass(frozen=True, slots=True)
class _Address:
    """Address to query. A report stays valid while the address is equal."""

    url: str
    headers: frozenset[tuple[str, str]] = field(repr=False)
    dynamo: DynamoSpec | None
    model: str
    """Model name that the workers at the address use."""
    uid: str | None


@dataclass(slots=True)
class _Answer:
    report: AddressReport | None = None
    rounds: int = 0
    """Number of query intervals since the address last answered."""


class RankDiscovery:
    """Discovery that applies workers, and applies them again when an address reports a change. Engines in *networks*
    can publish events.
    """

    def __init__(self, probe: Probe, *, networks: Sequence[Network] = (), interval_s: float = INTERVAL_S) -> None:
        self._probe = probe
        self._networks = networks
        self._interval_s = interval_s
        self._models: Sequence[ModelWorkers] = ()
        self._put: Put | None = None
        self._answers: dict[_Address, _Answer] = {}
        self._has_news = asyncio.Event()

    def take(self, models: Sequence[ModelWorkers], put: Put) -> None:
        """Apply the workers of *models* with *put*, after they were expanded according to the known reports.

        Raises:
            WorkersError: if two workers would have the same id. Errors of *put* are passed on. In both cases, nothing
                changes.
        """
        put(expanded(models, self._known, self._networks))
        self._models, self._put = models, put
        wanted = [
            _address(worker, model.upstream_model) for model in models for worker in model.workers if is_asked(worker)
        ]
        if any(address not in self._answers for address in wanted):
            self._has_news.set()
        self._answers = {address: self._answers.get(address) or _Answer() for address in wanted}

    async def ask(self) -> None:
        """Query all addresses that are due at the same time, and apply changes."""
        due = [address for address, answer in self._answers.items() if _is_due(address, answer)]
        for answer in self._answers.values():
            answer.rounds += 1
        found = await asyncio.gather(*(self._ask(address) for address in due))
        changed = False
        for address, report in zip(due, found, strict=True):
            known = self._answers.get(address)  # which may be gone meanwhile
            if known is not None and report is not None:
                changed = changed or report != known.report
                known.report, known.rounds = report, 0
        if changed:
            self._take_again()

    async def run(self) -> None:
        """Query addresses periodically until canceled. New addresses are queried immediately."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._has_news.wait()
            self._has_news.clear()
            await self.ask()

    def _known(self, worker: WorkerSpec, model: str) -> AddressReport | None:
        answer = self._answers.get(_address(worker, model))
        return None if answer is None else answer.report

    async def _ask(self, address: _Address) -> AddressReport | None:
        try:
            return await self._probe.ask(address.url, dict(address.headers), address.dynamo, address.model)
        except Exception:  # noqa: BLE001  # whatever one address brings about, the others are asked
            _log.exception("rank discovery at %s failed", address.url)
            return None

    def _take_again(self) -> None:
        assert self._put is not None, "ranks are asked for after workers were put in effect"
        try:
            self._put(expanded(self._models, self._known, self._networks))
        except WorkersError as fault:
            _log.error("the data-parallel ranks found at an address were rejected: %s", " ".join(fault.sentences))
        except Exception:  # noqa: BLE001  # the gateway goes on with what it has
            _log.exception("the data-parallel ranks found at an address were rejected")


def _is_due(address: _Address, answer: _Answer) -> bool:
    return answer.report is None or address.dynamo is not None or answer.rounds >= RARELY


def _address(worker: WorkerSpec, model: str) -> _Address:
    return _Address(worker.url, frozenset(worker.authorization.items()), worker.dynamo, model, worker.uid)
