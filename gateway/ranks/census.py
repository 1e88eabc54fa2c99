"""Keeps a worker for each of those who stand behind addresses that several share, as the addresses tell.

1. Settings pass through on their way to whoever puts them in force, at once and whole; what they do not say is filled
   in by what is known at that moment.
2. An address that does not answer changes nothing: who was there last stays. Health checks find out who is up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from gateway.ranks.population import Population, is_asked, spread
from gateway.settings import DynamoSettings, Settings, SettingsError, WorkerSettings

_log = logging.getLogger(__name__)

INTERVAL_S = 2.0
"""Between two questions to a frontend, whose workers come and go, or to an engine that has not answered yet."""
RARELY = 15
"""An engine that has said how many ranks it has is asked again after so many intervals: only a restart changes that."""


class Inquirer(Protocol):
    """See `gateway.ranks.inquiry.Inquiry`."""

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSettings | None, model: str
    ) -> Population | None: ...


@dataclass(frozen=True, slots=True)
class _Address:
    """What is asked; equal where what it told holds."""

    url: str
    headers: frozenset[tuple[str, str]] = field(repr=False)
    dynamo: DynamoSettings | None
    model: str
    """As it is called there."""
    uid: str | None


@dataclass(slots=True)
class _Answer:
    population: Population | None = None
    rounds: int = 0
    """Since it was asked last."""


class Census:
    """Hands settings to *take*, again when an address tells of others. *take* is as that of `LiveSettings`."""

    def __init__(self, take: Callable[[Settings], None], inquirer: Inquirer, *, interval_s: float = INTERVAL_S) -> None:
        self._take = take
        self._inquirer = inquirer
        self._interval_s = interval_s
        self._settings: Settings | None = None
        self._answers: dict[_Address, _Answer] = {}
        self._has_news = asyncio.Event()

    def take(self, settings: Settings) -> None:
        """Put *settings* in force, as far as is known who they mean.

        Raises:
            SettingsError: two workers would have one id. And whatever *take* raises; then nothing has changed.
        """
        self._take(spread(settings, self._known))
        self._settings = settings
        wanted = [
            _address(worker, model.upstream_model)
            for model in settings.models
            for worker in model.workers
            if is_asked(worker)
        ]
        if any(address not in self._answers for address in wanted):
            self._has_news.set()
        self._answers = {address: self._answers.get(address) or _Answer() for address in wanted}

    async def ask(self) -> None:
        """One round over the addresses whose turn it is, side by side, and its consequences."""
        due = [address for address, answer in self._answers.items() if _is_due(address, answer)]
        for answer in self._answers.values():
            answer.rounds += 1
        found = await asyncio.gather(*(self._ask(address) for address in due))
        changed = False
        for address, population in zip(due, found, strict=True):
            told = self._answers.get(address)  # which may be gone meanwhile
            if told is not None and population is not None:
                changed = changed or population != told.population
                told.population, told.rounds = population, 0
        if changed:
            self._take_again()

    async def run(self) -> None:
        """Ask until cancelled; who is new is asked at once."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._has_news.wait()
            self._has_news.clear()
            await self.ask()

    def _known(self, worker: WorkerSettings, model: str) -> Population | None:
        answer = self._answers.get(_address(worker, model))
        return None if answer is None else answer.population

    async def _ask(self, address: _Address) -> Population | None:
        try:
            return await self._inquirer.ask(address.url, dict(address.headers), address.dynamo, address.model)
        except Exception:  # noqa: BLE001  # whatever one address brings about, the others are asked
            _log.exception("asking who stands behind %s failed", address.url)
            return None

    def _take_again(self) -> None:
        assert self._settings is not None, "somebody was asked because of them"
        try:
            self._take(spread(self._settings, self._known))
        except SettingsError as fault:
            _log.error("who stands behind an address is not taken: %s", " ".join(fault.sentences))
        except Exception:  # noqa: BLE001  # the gateway goes on with what it has
            _log.exception("who stands behind an address is not taken")


def _is_due(address: _Address, answer: _Answer) -> bool:
    return answer.population is None or address.dynamo is not None or answer.rounds >= RARELY


def _address(worker: WorkerSettings, model: str) -> _Address:
    key = worker.api_key
    headers = frozenset({("authorization", f"Bearer {key.get_secret_value()}")} if key else ())
    return _Address(worker.url, headers, worker.dynamo, model, worker.uid)
