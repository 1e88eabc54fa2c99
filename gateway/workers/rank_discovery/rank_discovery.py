"""Keeps a worker for each rank and each Dynamo instance behind addresses that several share, as the addresses report.

1. Settings pass through here before they are applied, whole and at once; reports that are known by then fill the gaps.
2. An address that does not answer changes nothing: its last workers stay. Health checks find out which are up.
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
"""Time between two questions to a frontend, whose workers come and go, or to an engine that has not answered yet."""
RARELY = 15
"""Intervals after which an engine that has reported its ranks is asked again: only a restart changes them."""


Put = Callable[[Sequence[ModelWorkers]], None]
"""Applies workers, all of them or none."""


class Probe(Protocol):
    """See `gateway.workers.rank_discovery.address_probe.AddressProbe`."""

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSpec | None, model: str
    ) -> AddressReport | None: ...


@dataclass(frozen=True, slots=True)
class _Address:
    """One address to ask; equal while its report stays valid."""

    url: str
    headers: frozenset[tuple[str, str]] = field(repr=False)
    dynamo: DynamoSpec | None
    model: str
    """The model's name there."""
    uid: str | None


@dataclass(slots=True)
class _Answer:
    report: AddressReport | None = None
    rounds: int = 0
    """Rounds since it was asked last."""


class RankDiscovery:
    """Applies workers, and again when an address reports a change. Engines may publish in *networks*."""

    def __init__(self, probe: Probe, *, networks: Sequence[Network] = (), interval_s: float = INTERVAL_S) -> None:
        self._probe = probe
        self._networks = networks
        self._interval_s = interval_s
        self._models: Sequence[ModelWorkers] = ()
        self._put: Put | None = None
        self._answers: dict[_Address, _Answer] = {}
        self._has_news = asyncio.Event()

    def take(self, models: Sequence[ModelWorkers], put: Put) -> None:
        """Apply the workers of *models* by *put*, expanded by the reports so far.

        Raises:
            WorkersError: two workers would have one id. Also any error of *put*; then nothing has changed.
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
        """Ask the addresses that are due, side by side, and apply changes."""
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
        """Ask until cancelled; new addresses are asked at once."""
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
        assert self._put is not None, "somebody was asked because of workers that it put in force"
        try:
            self._put(expanded(self._models, self._known, self._networks))
        except WorkersError as fault:
            _log.error("the ranks found at an address were rejected: %s", " ".join(fault.sentences))
        except Exception:  # noqa: BLE001  # the gateway goes on with what it has
            _log.exception("the ranks found at an address were rejected")


def _is_due(address: _Address, answer: _Answer) -> bool:
    return answer.report is None or address.dynamo is not None or answer.rounds >= RARELY


def _address(worker: WorkerSpec, model: str) -> _Address:
    return _Address(worker.url, frozenset(worker.authorization.items()), worker.dynamo, model, worker.uid)
