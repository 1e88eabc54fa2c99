"""What is kept of teams, quotas and usage, behind one address: a file for one gateway, Redis for many."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.redis_claims import RedisClaims
from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.ledger.redis_usage import RedisUsage
from gateway.ledger.sqlite_book import book
from gateway.ledger.sqlite_usage import SqliteUsage
from gateway.ledger.usage_store import UsageStore
from gateway.quota.embedded_store import EmbeddedQuotaStore
from gateway.quota.quota_store import QuotaStore
from gateway.quota.redis_store import RedisQuotaStore
from gateway.quota.share import Policy
from gateway.redis_owners import RedisOwners
from gateway.response_owners import OwnerStore
from gateway.settings import Settings, SettingsError
from gateway.sqlite_migrations import MIGRATIONS
from gateway.sqlite_owners import SqliteOwners
from gateway.storage.redis_link import redis_link
from gateway.storage.schema import migrate
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from gateway.storage.unfit import StoreUnfit
from gateway.teams.identity import Identity
from gateway.teams.redis_teams import RedisTeamStore
from gateway.teams.sqlite_teams import SqliteTeamStore
from gateway.teams.team_store import TeamStore

SQLITE = "sqlite:///"
_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class Stores:
    """The seams of one store. Nothing is asked of it before `open`."""

    teams: TeamStore
    usage: UsageStore
    claims: Claims
    quota: QuotaStore
    owners: OwnerStore
    doubt: Callable[[StoreUnfit], None]
    """To be called whenever the store is found to be unfit: limits are not counted in one that lost its data."""
    open: Callable[[], Awaitable[None]]
    """Makes what has to be there, and goes on from what is. Raises StoreAway where that cannot be done later."""
    identify: Callable[[], Awaitable[bytes]]
    """Returns the pepper, once the store is known to be the one that is meant; an embedded one that is new is made.

    Raises StoreUnfit where it is not, and StoreAway where it cannot be asked.
    """
    initialize: Callable[[], Awaitable[bytes]]
    """The same, but a store in Redis that has no identity gets one: `warmgate store init`."""
    loops: Callable[[], Sequence[Coroutine[Any, Any, None]]]
    """To be run from `open` on, until cancelled."""
    aclose: Callable[[], Awaitable[None]]


def stores_of(settings: Settings, *, wall_clock: Callable[[], float]) -> Stores:
    """Those that *settings* name; in memory where they name none. *wall_clock* gives seconds since 1970.

    Raises:
        SettingsError: the address has an option, or a folder, that there is not.
    """
    url = settings.store.url
    if url is None or url.startswith(SQLITE):
        return _embedded(MEMORY if url is None else Path(url.removeprefix(SQLITE)), settings, wall_clock)
    return _shared(url, settings, wall_clock)


@dataclass(frozen=True, slots=True)
class Initialized:
    """Outcome of `initialize`."""

    identity: Identity
    is_new: bool
    """Whether the store had no identity before."""


async def initialize(settings: Settings, *, wall_clock: Callable[[], float]) -> Initialized:
    """Make the store of *settings* ready for gateways. One that is ready already stays as it is.

    Raises:
        SettingsError: the address of the store is wrong.
        StoreUnfit: it is initialized with another pepper, or is of a later version.
        StoreAway: it cannot be reached.
    """
    stores = stores_of(settings, wall_clock=wall_clock)
    is_new = False
    try:
        try:
            await stores.teams.identify(pepper_in(settings))
        except StoreUnfit as fault:
            if fault.state != "uninitialized":
                raise
            is_new = True
            await stores.initialize()
        assert stores.teams.identity is not None
        return Initialized(stores.teams.identity, is_new)
    finally:
        await stores.aclose()


def pepper_in(settings: Settings) -> bytes | None:
    """The pepper that *settings* give; None: the store keeps its own."""
    given = settings.store.pepper
    return None if given is None else given.get_secret_value().encode()


def _embedded(path: Path, settings: Settings, wall_clock: Callable[[], float]) -> Stores:
    if not path.parent.is_dir():
        raise SettingsError([f"store.url names a file in {path.parent}, which is no folder."])
    file = SqliteFile(path)
    # A reservation of a process that was killed ends with it, so the lease only has to outlast every request.
    quota = EmbeddedQuotaStore(file, book, clock=wall_clock, lease_s=settings.routing.lease_s)

    teams, given = SqliteTeamStore(file), pepper_in(settings)

    async def initialized() -> bytes:
        await file.run(partial(migrate, migrations=MIGRATIONS))
        return await teams.initialize(given)

    async def opened() -> None:
        await initialized()
        await file.compact()
        await quota.open()

    return Stores(
        teams=teams,
        usage=SqliteUsage(file),
        claims=SqliteClaims(file, wall_clock=wall_clock),
        quota=quota,
        owners=SqliteOwners(file, lifetime_s=settings.store.response_days * _DAY_S, wall_clock=wall_clock),
        doubt=_goes_on,
        open=opened,
        identify=initialized,
        initialize=initialized,
        loops=lambda: [quota.run()],
        aclose=file.aclose,
    )


def _goes_on(fault: StoreUnfit) -> None:
    """A file that was taken away stays open: limits go on from what they were, in memory."""


def _shared(url: str, settings: Settings, wall_clock: Callable[[], float]) -> Stores:
    store = settings.store
    try:
        link = redis_link(url, timeout_s=store.timeout_s)
    except ValueError as fault:
        raise SettingsError([f"{fault}."]) from None
    teams, given = RedisTeamStore(link), pepper_in(settings)
    quota = RedisQuotaStore(
        link,
        clock=wall_clock,
        verify=teams.verify,
        lease_s=store.lease_s,
        replicas=store.replicas,
        policy=Policy(
            requests=store.away_requests,
            tokens=store.away_tokens,
            concurrent=store.away_concurrent,
            budget=store.away_budget,
        ),
    )

    async def opened() -> None:
        """It may be away."""

    return Stores(
        teams=teams,
        usage=RedisUsage(link),
        claims=RedisClaims(link),
        quota=quota,
        owners=RedisOwners(link, lifetime_s=store.response_days * _DAY_S),
        doubt=quota.doubt,
        open=opened,
        identify=lambda: teams.identify(given),
        initialize=lambda: teams.initialize(given),
        loops=lambda: [link.run(), quota.run()],
        aclose=link.aclose,
    )
