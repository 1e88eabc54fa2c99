"""Teams, keys, quotas and the ledger of one gateway, put together."""

import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from gateway.admission import Admission
from gateway.errors import StoreAway
from gateway.ledger.recorder import Recorder
from gateway.ledger.retention import Retention
from gateway.quota.budgets import Budgets
from gateway.quota.output_length import OutputLengths
from gateway.quota.overspending import Overspending
from gateway.quota.plan import Calendar, Plans
from gateway.quota.quota import Quota
from gateway.quota.soft_budgets import SoftBudgets
from gateway.settings import Settings, SettingsError, TeamSettings
from gateway.storage.file_lock import FileLock, FileTaken
from gateway.storage.sqlite_file import MEMORY
from gateway.stores import SQLITE, stores_of
from gateway.teams.access import Access
from gateway.teams.declared import Declared, declared_in
from gateway.teams.directory import Directory
from gateway.teams.following import Following, StoreState
from gateway.teams.idle_limits import idle_limits
from gateway.teams.open_mode import OpenMode
from gateway.teams.secret import Digester

_log = logging.getLogger(__name__)

SUM_DAYS = 5 * 366
"""For which sums are kept, at least: they are small, and years are compared."""


_OPEN = {
    "loopback": "neither teams nor a store are set: whoever is on this machine may ask, and nobody else",
    "network": "neither teams nor a store are set, and server.open_mode is network: whoever reaches the port may ask",
}


class Tenancy:
    """Holds the file of its store from its making on; `begin` is to be awaited before requests are served.

    Raises:
        SettingsError: two declared keys have the same secret, or the address of the store is no good, or its file is
            another gateway's.
    """

    def __init__(self, settings: Settings, *, wall_clock: Callable[[], float]) -> None:
        self.zone = zone = ZoneInfo(settings.quota.time_zone)
        self._settings = settings
        self._teams = settings.teams
        self._pepper = secrets.token_bytes(32)  # until the true one is known
        self._is_peppered = False
        self.is_open = not settings.teams and settings.store.url is None
        """Neither teams nor a store are set: whoever is on this machine may ask, as long as no team is made."""
        self._is_in_memory = settings.store.url is None
        self.stores = stores_of(settings, wall_clock=wall_clock)
        self._lock = _lock_of(settings)
        self.directory = Directory(is_followed=settings.store.url is not None)
        self.recorder = Recorder(wall_clock=wall_clock, zone=zone)
        self._following = Following(
            self.stores.teams, self.directory, identify=self._find_pepper, on_unfit=self.stores.doubt
        )
        self.access = Access(
            self.directory,
            Digester(self._pepper),
            wall_clock=wall_clock,
            trusted_proxies=settings.server.trusted_proxies,
            is_open=self.is_open,
            open_mode=OpenMode(is_network=settings.server.open_mode == "network", origins=settings.server.cors_origins),
            catch_up=self._following.catch_up,
        )
        quota = settings.quota
        self.plans = Plans(
            burst=quota.burst,
            cached_weight=quota.cached_weight,
            calendar=Calendar(zone),
            unreserved_minutes=quota.max_unreserved_minutes,
        )
        lengths = OutputLengths(default=quota.default_output_tokens)
        self.quota = Quota(
            self.stores.quota,
            self.plans,
            lengths=lengths,
            clock=wall_clock,
            time_zone=zone,
            most_output_tokens=quota.max_output_tokens,
        )
        self.budgets = Budgets(self.stores.quota, self.directory, Calendar(zone), clock=wall_clock)
        self.soft_budgets = SoftBudgets(
            self.stores.usage, self.directory, Calendar(zone), cached_weight=quota.cached_weight, clock=wall_clock
        )
        self._overspending = Overspending(self.stores.quota, tolerance=quota.budget_tolerance, clock=wall_clock)
        self.admission = Admission(
            self.access,
            self.quota,
            self.recorder,
            overspending=self._overspending,
            soft_budgets=self.soft_budgets,
            pepper=lambda: self._pepper,
            user_header=settings.server.user_header.encode("ascii"),
            hit_headers=settings.server.hit_headers,
        )
        self.declared(self._teams)  # faults are told before anything starts
        days = settings.store.retention_days
        self._retention = Retention(
            self.stores.usage, record_days=days, sum_days=max(days, SUM_DAYS), today=self.recorder.today
        )

    async def begin(self) -> None:
        """Open the store and read it.

        One in Redis may be away, or not be initialized: then only declared keys count until it is there.

        Raises:
            StoreAway: the file of an embedded one cannot be used, or is of a later version, or has another pepper.
            SettingsError: two declared keys have the same secret.
        """
        self._say_what_is_kept()
        self.declare(self.declared(self._teams))
        await self.stores.open()
        with suppress(StoreAway):
            await self._following.load()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """To be run from `begin` on, until cancelled."""
        return [
            *self.stores.loops(),
            self._following.run(),
            self._retention.run(),
            self._overspending.run(),
            self.budgets.run(),
            self.soft_budgets.run(),
        ]

    @property
    def is_kept(self) -> bool:
        """Whether there is a store that outlives this process."""
        return not self._is_in_memory

    @property
    def is_degraded(self) -> bool:
        """Whether the store is away: keys are those that are known, and limits are held without it."""
        return self.quota.is_degraded or self._following.is_away

    @property
    def keys_are_stale(self) -> bool:
        """Whether changes of keys and teams cannot be heard."""
        return self._following.is_away

    @property
    def store_state(self) -> StoreState:
        """State of the store when it was asked last."""
        return self._following.state

    @property
    def is_store_awaited(self) -> bool:
        """Whether the store was never read: the keys that it keeps would all be refused."""
        return not self._following.has_been_heard

    def store_status(self) -> dict[str, Any]:
        """State of the store for /readyz; empty where everything is in memory."""
        if self._is_in_memory:
            return {}
        status: dict[str, Any] = {"state": self._following.state, "heard": self._following.has_been_heard}
        return status | {"fault": fault} if (fault := self._following.fault) else status

    async def aclose(self) -> None:
        """To be awaited when the loops have ended."""
        await self.stores.aclose()
        if self._lock is not None:
            self._lock.release()

    def declared(self, teams: Iterable[TeamSettings]) -> Declared:
        """What *teams* say, with digests. Raises as `declared_in`."""
        return declared_in(teams, Digester(self._pepper))

    def declare(self, declared: Declared, teams: tuple[TeamSettings, ...] | None = None) -> None:
        """Have these teams and keys from the settings from this moment on; *teams* is what they were made from."""
        if teams is not None:
            self._teams = teams
        self.directory.declare(declared)

    async def digester(self) -> Digester:
        """That of the pepper which is kept.

        Raises:
            StoreAway: it is not known yet.
        """
        if not self._is_peppered:
            await self._find_pepper()
        return Digester(self._pepper)

    def _say_what_is_kept(self) -> None:
        if self.is_open:
            _log.warning(_OPEN[self._settings.server.open_mode])
        elif self._is_in_memory:
            _log.warning("store.url is not set: usage, budgets, and keys that are made while running end with it")
        for sentence in idle_limits(self._settings):
            _log.warning(sentence)

    async def _find_pepper(self) -> None:
        """Find out the pepper of the store, under which declared keys are digested as well."""
        self._pepper = await self.stores.identify()
        self._is_peppered = True
        self.access.use(Digester(self._pepper))
        self.declare(self.declared(self._teams))


def _lock_of(settings: Settings) -> FileLock | None:
    """The file of an embedded store is one gateway's: two would each grant the whole of every limit."""
    url = settings.store.url
    if url is None or not url.startswith(SQLITE) or url == f"{SQLITE}{MEMORY}":
        return None
    path = Path(url.removeprefix(SQLITE))
    try:
        return FileLock(path)
    except FileTaken:
        text = f"store.url: {path} is in use by another gateway; those that share a store need one in Redis."
        raise SettingsError([text]) from None
    except OSError as fault:
        raise SettingsError([f"store.url: {path} cannot be used: {fault.strerror}."]) from None
