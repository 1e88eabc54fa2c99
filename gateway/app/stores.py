"""Storage of teams, quotas and usage: in a file for a single gateway, or in Redis for several gateways."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gateway.api.admin_v1.claims import Claims
from gateway.api.admin_v1.redis_claims import RedisClaims
from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.app.sqlite_migrations import MIGRATIONS
from gateway.app.store_rules import StoreAddressError, StoreRules
from gateway.batch.line_store import LineStore
from gateway.batch.records import RecordStore
from gateway.batch.redis_lines import RedisLines
from gateway.batch.redis_records import RedisRecords
from gateway.batch.sqlite_lines import SqliteLines
from gateway.batch.sqlite_records import SqliteRecords
from gateway.models.response_affinity.owners import OwnerStore
from gateway.models.response_affinity.redis_owners import RedisOwners
from gateway.models.response_affinity.sqlite_owners import SqliteOwners
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile, migrate
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.alerts.alert_store import AlertStore
from gateway.tenancy.alerts.redis_alerts import RedisAlerts
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.sqlite_book import book
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.ledger.usage_store import UsageStore
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from gateway.tenancy.quota.meter_table import MeterTable
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.redis_store import RedisQuotaStore
from gateway.tenancy.teams.identity import Identity
from gateway.tenancy.teams.redis_teams import RedisTeamStore
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team_store import TeamStore

_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class Stores:
    """Interfaces to the data in one store. Call `open` before any use of the store."""

    teams: TeamStore
    usage: UsageStore
    claims: Claims
    quota: QuotaStore
    owners: OwnerStore
    files: RecordStore
    batches: RecordStore
    enqueued: RecordStore
    """Prompt tokens of batches that have not ended."""
    batch_lines: LineStore
    alerts: AlertStore
    batch_events: AlertStore
    """Ends of batches, for webhooks."""
    doubt: Callable[[StoreUnfit], None]
    """Function to call when the store turns out to be unfit for use.

    Limits are no longer counted in a store that lost its data.
    """
    open: Callable[[], Awaitable[None]]
    """Function that prepares the store and restores its state.

    Raises StoreUnavailable if this cannot be done later.
    """
    identify: Callable[[], Awaitable[bytes]]
    """Function that verifies the identity of the store and returns its pepper. A new file store is initialized.

    Raises StoreUnfit if it is the wrong store, and StoreUnavailable if the store cannot be reached.
    """
    initialize: Callable[[], Awaitable[bytes]]
    """Function that verifies the store and returns its pepper (secret salt of digests).

    Unlike `identify`, it also initializes a Redis store without identity.
    """
    loops: Callable[[], Sequence[Coroutine[Any, Any, None]]]
    """Function that returns the background loops of the store. Run them after `open`, until canceled."""
    aclose: Callable[[], Awaitable[None]]


def stores_of(rules: StoreRules, *, wall_clock: Callable[[], float]) -> Stores:
    """Return the interfaces to the store that *rules* describe. *wall_clock* returns seconds since 1970.

    Raises:
        StoreAddressError: if the address has an unknown option, or names a folder that does not exist.
    """
    if rules.file is not None:
        return _embedded(rules.file, rules, wall_clock)
    return _shared(rules, wall_clock)


@dataclass(frozen=True, slots=True)
class Initialized:
    """Result of the initialization of a store."""

    identity: Identity
    is_new: bool
    """Whether the store had no identity before."""


async def initialize(rules: StoreRules, *, wall_clock: Callable[[], float]) -> Initialized:
    """Initialize the store that *rules* describe for gateways. A store that is already initialized stays unchanged.

    Raises:
        StoreAddressError: if the address of the store is invalid.
        StoreUnfit: if the store was initialized with a different pepper or by a later version.
        StoreUnavailable: if the store cannot be reached.
    """
    stores = stores_of(rules, wall_clock=wall_clock)
    is_new = False
    try:
        try:
            await stores.teams.identify(rules.pepper)
        except StoreUnfit as fault:
            if fault.state != "uninitialized":
                raise
            is_new = True
            await stores.initialize()
        assert stores.teams.identity is not None
        return Initialized(stores.teams.identity, is_new)
    finally:
        await stores.aclose()


def _embedded(path: Path, rules: StoreRules, wall_clock: Callable[[], float]) -> Stores:
    if not path.parent.is_dir():
        raise StoreAddressError(f"store.url names a file in {path.parent}, which is not a folder.")
    file = SqliteFile(path)
    # A reservation of a process that was killed ends with it, so the lease only has to outlast every request.
    quota = EmbeddedQuotaStore(
        file,
        book,
        clock=wall_clock,
        lease_s=rules.embedded_lease_s,
        max_limits=rules.max_limits,
        table=None if rules.table is None else MeterTable(rules.table.descriptor, rules.table.seat),
    )

    teams, given = SqliteTeamStore(file), rules.pepper

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
        owners=SqliteOwners(file, lifetime_s=rules.response_days * _DAY_S, wall_clock=wall_clock),
        files=SqliteRecords(file, "file"),
        batches=SqliteRecords(file, "batch"),
        enqueued=SqliteRecords(file, "enqueued"),
        batch_lines=SqliteLines(file),
        alerts=SqliteAlerts(file, wall_clock=wall_clock),
        batch_events=SqliteAlerts(file, wall_clock=wall_clock, name="batch_event"),
        doubt=_goes_on,
        open=opened,
        identify=initialized,
        initialize=initialized,
        loops=lambda: [quota.run()],
        aclose=file.aclose,
    )


def _goes_on(fault: StoreUnfit) -> None:
    """Ignore the removal of the SQLite file.

    The open file is still usable, so limits continue from their last state.
    """


def _shared(rules: StoreRules, wall_clock: Callable[[], float]) -> Stores:
    try:
        link = redis_link(rules.url, timeout_s=rules.timeout_s)
    except ValueError as fault:
        raise StoreAddressError(f"{fault}.") from None
    teams, given = RedisTeamStore(link), rules.pepper
    quota = RedisQuotaStore(
        link,
        clock=wall_clock,
        verify=teams.verify,
        lease_s=rules.lease_s,
        replicas=rules.replicas,
        policy=rules.policy,
        max_limits=rules.max_limits,
    )

    async def opened() -> None:
        """Do nothing, because the gateway can start while Redis is unavailable."""

    return Stores(
        teams=teams,
        usage=RedisUsage(link),
        claims=RedisClaims(link),
        quota=quota,
        owners=RedisOwners(link, lifetime_s=rules.response_days * _DAY_S),
        files=RedisRecords(link, "file"),
        batches=RedisRecords(link, "batch"),
        enqueued=RedisRecords(link, "enqueued"),
        batch_lines=RedisLines(link),
        alerts=RedisAlerts(link),
        batch_events=RedisAlerts(link, name="batch_events"),
        doubt=quota.doubt,
        open=opened,
        identify=lambda: teams.identify(given),
        initialize=lambda: teams.initialize(given),
        loops=lambda: [link.run(), quota.run()],
        aclose=link.aclose,
    )
