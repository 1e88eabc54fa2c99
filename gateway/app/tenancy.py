"""Assembly of teams, keys, quotas and the ledger of one gateway."""

import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from gateway.app.created_teams import CreatedTeams
from gateway.app.identity_rules import IdentityRules
from gateway.app.store_rules import StoreAddressError, StoreRules, kind_of
from gateway.app.stores import stores_of
from gateway.protocol.errors import StoreUnavailable
from gateway.protocol.session_identity import scoped_session
from gateway.proxy.admission import Admission
from gateway.storage.file_lock import FileLock, FileTaken
from gateway.storage.sqlite_file import MEMORY
from gateway.tenancy.identity.admin_person import AdminTokenCheck
from gateway.tenancy.ledger.recorder import Recorder
from gateway.tenancy.ledger.retention import Retention
from gateway.tenancy.quota.budgets import Budgets
from gateway.tenancy.quota.limit_status import LimitStatus, Owners, limit_status
from gateway.tenancy.quota.output_length import OutputLengths
from gateway.tenancy.quota.overspending import Overspending
from gateway.tenancy.quota.plan import Calendar, Metered, Plans
from gateway.tenancy.quota.quota import Quota
from gateway.tenancy.quota.soft_budgets import SoftBudgets
from gateway.tenancy.teams.access import Access
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.following import Following, StoreState
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.open_mode import OpenMode
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import TeamStore

if TYPE_CHECKING:
    from gateway.app.identity import TokenAccess
    from gateway.app.openid_provider import OpenIdProvider

_log = logging.getLogger(__name__)

SUM_DAYS = 5 * 366
"""Minimum number of days for which usage sums are kept. The sums are small and allow a comparison of years."""


_OPEN = {
    "loopback": "no teams and no store are configured, so only programs on this machine can send requests",
    "network": "every host can send requests without a key: server.open_mode is network, without teams and a store",
}


Declaring = Callable[[Digester], Declared]
"""Function that returns the teams and keys in the settings, with the digests of the keys.

Raises SettingsError if two keys have the same secret.
"""


@dataclass(frozen=True, slots=True)
class TenancyRules:
    """Options for teams, keys, quotas and the ledger."""

    store: StoreRules
    has_store: bool
    """Whether a store is configured. Without a store, all data is in memory."""
    is_open: bool
    """Whether requests need no key, because there are neither teams nor a store, until a team is created."""
    open_mode: Literal["loopback", "network"]
    zone: ZoneInfo
    burst: float
    cached_weight: float
    max_unreserved_minutes: float
    default_output_tokens: int
    max_output_tokens: int
    budget_tolerance: float
    retention_days: int
    trusted_proxies: Sequence[str]
    cors_origins: Sequence[str]
    user_header: str
    hit_headers: Literal["own", "shared", "off"]
    cost_header: bool
    identity: IdentityRules
    """Issuers of tokens, which callers send in place of an API key."""
    warnings: tuple[str, ...] = ()
    """Warnings about limits that have no effect, as full sentences."""


class IdentityUnavailableError(Exception):
    """Raised if an issuer of tokens is configured, but the optional dependency for tokens is not installed."""


class Tenancy:
    """Teams, keys, quotas and the ledger of one gateway. Await `begin` before serving requests.

    Raises:
        SettingsError: if two declared keys have the same secret.
        StoreAddressError: if the address of the store is invalid, or another gateway uses the file.
        IdentityUnavailableError: if an issuer is configured, but the extra ``oidc`` is not installed.
    """

    def __init__(self, rules: TenancyRules, declaring: Declaring, *, wall_clock: Callable[[], float]) -> None:
        self._rules = rules
        self.zone = rules.zone
        self._declaring = declaring
        self._pepper = secrets.token_bytes(32)  # until the true one is known
        self._is_peppered = False
        self.is_open = rules.is_open
        """Whether requests need no key, because there are neither teams nor a store, until a team is created."""
        self.stores = stores_of(rules.store, wall_clock=wall_clock)
        self._lock = _lock_of(rules.store)
        self.directory = Directory(is_followed=rules.has_store)
        self.recorder = Recorder(wall_clock=wall_clock, zone=rules.zone)
        self._following = Following(
            self.stores.teams, self.directory, identify=self._find_pepper, on_unfit=self.stores.doubt
        )
        self._token_access = _token_access(rules.identity, self.stores.teams, self.directory, wall_clock)
        self.admin_tokens: AdminTokenCheck | None = None if self._token_access is None else self._token_access.admin
        """Check of tokens with a role in the administration, or None if no issuer gives roles."""
        self.access = self._make_access(wall_clock)
        self._begin_counting(wall_clock)
        self.admission = Admission(
            self.access,
            self.quota,
            self.recorder,
            overspending=self._overspending,
            soft_budgets=self.soft_budgets,
            pepper=lambda: self._pepper,
            user_header=rules.user_header.encode("ascii"),
            hit_headers=rules.hit_headers,
            cost_header=rules.cost_header,
        )
        self.declared(declaring)  # faults are reported before anything starts
        self._retention = Retention(
            self.stores.usage,
            record_days=rules.retention_days,
            sum_days=max(rules.retention_days, SUM_DAYS),
            today=self.recorder.today,
        )

    def _make_access(self, wall_clock: Callable[[], float]) -> Access:
        rules = self._rules
        return Access(
            self.directory,
            Digester(self._pepper),
            wall_clock=wall_clock,
            trusted_proxies=rules.trusted_proxies,
            is_open=rules.is_open,
            open_mode=OpenMode(is_network=rules.open_mode == "network", origins=rules.cors_origins),
            catch_up=self._following.catch_up,
            tokens=None if self._token_access is None else self._token_access.tokens,
        )

    def _begin_counting(self, wall_clock: Callable[[], float]) -> None:
        """Create the counters that compare requests, tokens and costs with limits."""
        rules, quotas = self._rules, self.stores.quota
        calendar = Calendar(rules.zone)
        self.plans = self._make_plans(calendar)
        self._calendar = calendar
        self.quota = Quota(
            quotas,
            self.plans,
            lengths=OutputLengths(default=rules.default_output_tokens),
            clock=wall_clock,
            time_zone=rules.zone,
            most_output_tokens=rules.max_output_tokens,
        )
        self.budgets = Budgets(quotas, self.directory, calendar, clock=wall_clock)
        self.soft_budgets = SoftBudgets(
            self.stores.usage, self.directory, calendar, cached_weight=rules.cached_weight, clock=wall_clock
        )
        self._overspending = Overspending(quotas, tolerance=rules.budget_tolerance, clock=wall_clock)

    def _make_plans(self, calendar: Calendar) -> Plans:
        rules = self._rules
        return Plans(
            burst=rules.burst,
            cached_weight=rules.cached_weight,
            calendar=calendar,
            unreserved_minutes=rules.max_unreserved_minutes,
        )

    async def limits_of(self, team: Team, owners: Owners, models: Iterable[Metered], now: float) -> list[LimitStatus]:
        """Return the limits of *team* and of *owners* for all *models* with the amounts that are left at *now*.

        Raises:
            StoreUnavailable: if the store cannot be reached.
        """
        caller = Caller(team, Key(id="", team=team.name, digest="", project=owners.project))
        plans = self._make_plans(self._calendar)  # the plans of requests stay in their cache
        session = scoped_session(owners.session, team.name)
        asked = [plans.plan_for(caller, each, owners.user, session, now=now) for each in models]
        found = await limit_status(self.stores.quota, team.name, asked, now)
        return [each for each in found if each.scoped.scope != "user" or owners.user is not None]

    async def begin(self) -> None:
        """Open the store and load teams and keys.

        Redis may be unavailable or not initialized. Until it is ready, only keys declared in the settings are valid.

        Raises:
            StoreUnavailable: if the SQLite file is unusable, was written by a later version, or has a different pepper.
            SettingsError: if two declared keys have the same secret.
        """
        self._say_what_is_kept()
        self.declare(self.declared(self._declaring))
        await self.stores.open()
        with suppress(StoreUnavailable):
            await self._following.load()

    def login_providers(self, clock: Callable[[], float]) -> Sequence["OpenIdProvider"]:
        """Return the issuers with which people log in to the console. *clock* returns monotonic seconds."""
        return () if self._token_access is None else self._token_access.providers(clock)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the background loops to run after `begin` until canceled."""
        return [
            *self.stores.loops(),
            self._following.run(),
            self._retention.run(),
            self._overspending.run(),
            self.budgets.run(),
            self.soft_budgets.run(),
            *([] if self._token_access is None else self._token_access.loops()),
        ]

    @property
    def is_kept(self) -> bool:
        """Whether a store is configured, so that data survives a restart."""
        return self._rules.has_store

    @property
    def store_kind(self) -> str | None:
        """Kind of the store: file or redis, or None if everything is in memory."""
        return kind_of(self._rules.store) if self._rules.has_store else None

    @property
    def is_degraded(self) -> bool:
        """Whether the store of teams and keys is unavailable.

        Known keys stay valid meanwhile, and limits are enforced without the store.
        """
        return self.quota.is_degraded or self._following.is_unavailable

    @property
    def keys_are_stale(self) -> bool:
        """Whether the gateway currently cannot receive changes of keys and teams from the store."""
        return self._following.is_unavailable

    @property
    def store_state(self) -> StoreState:
        """State of the store at the last access."""
        return self._following.state

    @property
    def is_store_awaited(self) -> bool:
        """Whether the store has not been read yet, so that its keys are not known."""
        return not self._following.has_been_heard

    def store_status(self) -> dict[str, Any]:
        """Return the store state for /readyz, or an empty dict if no store is configured."""
        if not self._rules.has_store:
            return {}
        status: dict[str, Any] = {"state": self._following.state, "heard": self._following.has_been_heard}
        return status | {"fault": fault} if (fault := self._following.fault) else status

    async def aclose(self) -> None:
        """Close the store. Call this after the background loops have ended."""
        await self.stores.aclose()
        if self._lock is not None:
            self._lock.release()

    def declared(self, declaring: Declaring) -> Declared:
        """Return the teams and keys that *declaring* returns, with digests under the current pepper.

        Raises the same errors as *declaring*.
        """
        return declaring(Digester(self._pepper))

    def declare(self, declared: Declared, declaring: Declaring | None = None) -> None:
        """Apply the teams and keys in *declared*. If *declaring* is given, use it as their new source."""
        if declaring is not None:
            self._declaring = declaring
        self.directory.declare(declared)

    async def digester(self) -> Digester:
        """Return a digester of secrets with the pepper (secret salt) of the store.

        Raises:
            StoreUnavailable: if the pepper is not known yet.
        """
        if not self._is_peppered:
            await self._find_pepper()
        return Digester(self._pepper)

    def _say_what_is_kept(self) -> None:
        if self.is_open:
            _log.warning(_OPEN[self._rules.open_mode])
        elif not self._rules.has_store:
            _log.warning("store.url is not set, so usage, budgets and keys created at run time are lost on restart")
        for sentence in self._rules.warnings:
            _log.warning(sentence)

    async def _find_pepper(self) -> None:
        """Read the pepper of the store, and use it to compute the digests of the keys in the settings."""
        self._pepper = await self.stores.identify()
        self._is_peppered = True
        self.access.use(Digester(self._pepper))
        self.declare(self.declared(self._declaring))


def _token_access(
    rules: IdentityRules, store: TeamStore, directory: Directory, wall_clock: Callable[[], float]
) -> "TokenAccess | None":
    """Return the callers with tokens, or None if no issuer is configured.

    Raises:
        IdentityUnavailableError: if the extra ``oidc`` is not installed.
    """
    if not rules.issuers:
        return None
    try:
        from gateway.app.identity import TokenAccess  # noqa: PLC0415  # an extra that not all have
    except ImportError:
        text = "identity.issuers needs the extra warmgate[oidc], which is not installed."
        raise IdentityUnavailableError(text) from None
    created = CreatedTeams(store, directory, wall_clock=wall_clock)
    return TokenAccess(rules, directory, create_team=created, clock=wall_clock, wall_clock=wall_clock)


def _lock_of(store: StoreRules) -> FileLock | None:
    """Lock the SQLite file for this gateway. Return None for stores of other kinds, and for one of several processes.

    Two gateways with the same file would each grant the full amount of every limit.
    """
    path = store.file
    if path is None or str(path) == str(MEMORY) or store.table is not None:
        return None
    try:
        return FileLock(path)
    except FileTaken:
        text = f"store.url: {path} is in use by another gateway. Use Redis to share a store between gateways."
        raise StoreAddressError(text) from None
    except OSError as fault:
        raise StoreAddressError(f"store.url: {path} cannot be used: {fault.strerror}.") from None
