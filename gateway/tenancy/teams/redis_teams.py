"""Teams, keys, added workers and weights of routes in Redis, all in one cluster slot.

    warmgate:{directory}:revision   number of changes and random bits, such as 7-3f0a...
    warmgate:{directory}:teams      hash: name -> JSON
    warmgate:{directory}:keys       hash: id -> JSON
    warmgate:{directory}:workers    hash: id and model -> JSON
    warmgate:{directory}:routes     hash: name of the route -> JSON
    warmgate:{directory}:access     hash: name -> JSON of records that decide which tokens are accepted
    warmgate:{directory}:identity   JSON: `gateway.tenancy.teams.identity.Identity`, written once
    warmgate:{directory}:pepper     32 bytes, if the settings contain no pepper
    warmgate:{directory}:audit      stream, field ``e``: JSON
    warmgate:{directory}:changes    channel: a message for each change

None of these Redis keys expires. The gateway computes a change from a snapshot. A script writes the change if the store
still has that snapshot, and otherwise the gateway computes it again. A revision is a number and 64 random bits, because
a Redis that lost its last changes uses their numbers again for other changes.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisClusterException, RedisError

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import RedisLink, store_unavailable
from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.ledger.cursor import cursor_of, place_of
from gateway.tenancy.teams import audit_log
from gateway.tenancy.teams.access_records import AccessRecord
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.change_result import ChangeResult, change_result
from gateway.tenancy.teams.identity import Identity, changed, new_identity, pepper_of, uninitialized, without_pepper
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.rows import Entity, Rows, row_of
from gateway.tenancy.teams.secret import SECRET_BYTES
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Change, Snapshot

POLL_S = 0.3
"""Seconds between two reads of the store revision. It is polled, because a change message can get lost."""
ATTEMPTS = 16
"""Maximum number of attempts to write a change while other gateways write, too."""

_PREFIX = "warmgate:{directory}:"
REVISION, TEAMS, KEYS, WORKERS = (_PREFIX + name for name in ("revision", "teams", "keys", "workers"))
PEPPER, AUDIT, CHANGES = _PREFIX + "pepper", _PREFIX + "audit", _PREFIX + "changes"
IDENTITY, ROUTES, ACCESS = _PREFIX + "identity", _PREFIX + "routes", _PREFIX + "access"

LOAD, WRITE, NOTE, INITIALIZE = (
    Path(__file__).with_name(f"{name}.lua").read_text(encoding="utf-8")
    for name in ("load", "write", "note", "initialize")
)
_FLAT = msgspec.msgpack.Decoder(list[str])
_TEAM, _KEY, _WORKER, _ROUTE, _ACCESS = "2", "3", "6", "7", "8"
"""Positions of the Redis keys of teams, API keys, workers, routes and access records in the list for `write.lua`."""


class RedisTeamStore:
    """Store of teams and keys in Redis or Valkey, version 6.2 or later, to which *link* connects."""

    def __init__(self, link: RedisLink, *, poll_s: float = POLL_S) -> None:
        self._link = link
        self._poll_s = poll_s
        self._known = (b"", Snapshot(0))
        """Revision in the store, together with the snapshot of that revision."""
        self._teams, self._keys = Rows(Team), Rows(Key)
        self._workers, self._routes = Rows(AddedWorker), Rows(RouteWeights)
        self._access: Rows[AccessRecord] = Rows(AccessRecord)  # type: ignore[arg-type]  # a union is not a type
        self._expected = b""
        """Identity that the store must have. If it is empty, any identity is accepted."""

    @property
    def identity(self) -> Identity | None:
        return _identity(self._expected)

    async def identify(self, given: bytes | None) -> bytes:
        raw, kept = await self._identity_and_pepper()
        pepper = pepper_of(_identity(raw), given=given, kept=kept)
        self._expected = raw or b""
        return pepper

    async def initialize(self, given: bytes | None) -> bytes:
        raw, kept = await self._identity_and_pepper()
        if raw is None:
            if given is None and kept is None and (await self._load())[1].keys:
                raise without_pepper()
            pepper = given or kept or secrets.token_bytes(SECRET_BYTES)
            made = msgspec.json.encode(new_identity(pepper))
            # The second writer finds the identity of the first.
            await self._ask(INITIALIZE, (IDENTITY, PEPPER), (made, kept or b"", b"" if given is not None else pepper))
        return await self.identify(given)

    async def verify(self) -> None:
        """Raise an error unless the store of teams and keys has been initialized.

        Raises:
            StoreUnfit: if the store has lost its data or was never initialized.
            StoreUnavailable: if the store cannot be reached.
        """
        if await self._link.ask(lambda client: client.get(IDENTITY)) is None:
            raise changed(None) if self._expected else uninitialized()

    async def load(self) -> Snapshot:
        """Return the content of the store (see `TeamStore.load`). Unchanged content is returned as the same object."""
        _, snapshot = await self._load()
        return snapshot

    async def write(self, change: Change, audit: AuditEntry) -> Snapshot:
        """Write a change (see `TeamStore.write`) in two round trips, or more if others write at the same moment."""
        for _ in range(ATTEMPTS):
            revision, before = await self._load()
            result = change_result(change, before)
            made = f"{result.snapshot.revision}-{secrets.token_hex(8)}".encode()
            log = (audit_log.row_of(audit), audit_log.KEPT)
            arguments = (revision, made, *log, CHANGES, self._expected, *_rows_of(result))
            if await self._ask(WRITE, (REVISION, TEAMS, KEYS, AUDIT, IDENTITY, WORKERS, ROUTES, ACCESS), arguments):
                self._known = (made, result.snapshot)
                return result.snapshot
        raise StoreUnavailable("The store is busy with other changes. Retry the request", retry_after_s=1.0)

    async def note(self, audit: AuditEntry) -> None:
        arguments = (self._expected, audit_log.row_of(audit), audit_log.KEPT)
        if not await self._ask(NOTE, (IDENTITY, AUDIT), arguments):
            raise changed(None) if self._expected else uninitialized()

    async def changes(self) -> AsyncGenerator[None, None]:
        messages = await self._link.ask(_subscribed)
        try:
            seen: Any = ()  # equal to no answer
            while True:
                now = await self._link.ask(lambda client: client.mget(REVISION, IDENTITY))
                if now != seen:
                    seen = now
                    yield
                await self._heard(messages)
        finally:
            await messages.aclose()  # type: ignore[no-untyped-call]

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        newest = "+"
        if cursor is not None:
            at_ms, number = place_of(cursor, tuple[audit_log.Ordinal, audit_log.Ordinal])
            newest = f"({at_ms}-{number}"
        rows: Any = await self._link.ask(lambda client: client.xrevrange(AUDIT, newest, "-", count=most + 1))
        return audit_log.page_of([(cursor_of(*map(int, place.split(b"-"))), row[b"e"]) for place, row in rows], most)

    async def _identity_and_pepper(self) -> tuple[bytes | None, bytes | None]:
        found = await self._link.ask(lambda client: client.mget(IDENTITY, PEPPER))
        return cast("tuple[bytes | None, bytes | None]", tuple(found))

    async def _load(self) -> tuple[bytes, Snapshot]:
        known = self._known
        names = (REVISION, TEAMS, KEYS, IDENTITY, WORKERS, ROUTES, ACCESS)
        revision, *rows = await self._ask(LOAD, names, (known[0], self._expected))
        if revision == b"!":
            raise changed(_identity(rows[0]))
        if rows:
            teams, keys, workers, routes, access = map(_pairs, rows)
            number = int(revision.partition(b"-")[0])
            found = self._workers.read(workers), self._routes.read(routes), self._access.read(access)
            known = self._known = (revision, Snapshot(number, self._teams.read(teams), self._keys.read(keys), *found))
        return known

    async def _ask(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await self._link.ask(lambda client: client.eval(script, len(keys), *keys, *arguments))

    async def _heard(self, messages: PubSub) -> None:
        """Wait for the next change message or, at most, until the next poll is due."""
        try:
            # A broken connection is made again, which must not take forever.
            async with asyncio.timeout(self._poll_s + self._link.timeout_s):
                await messages.get_message(ignore_subscribe_messages=True, timeout=self._poll_s)
        except (RedisError, RedisClusterException, OSError) as fault:
            raise store_unavailable(fault, self._link.timeout_s) from None


def _identity(raw: bytes | None) -> Identity | None:
    return msgspec.json.decode(raw, type=Identity) if raw else None


async def _subscribed(client: "Redis") -> PubSub:
    # A client of a cluster knows no node before its first command, and SUBSCRIBE does not count.
    await client.get(REVISION)
    messages = client.pubsub()
    await messages.subscribe(CHANGES)
    return messages


def _pairs(packed: bytes) -> Iterator[tuple[str, bytes]]:
    flat = iter(_FLAT.decode(packed))
    # Texts in MessagePack have to be UTF-8; rows are JSON, which is.
    return ((name, row.encode()) for name, row in zip(flat, flat, strict=True))


def _rows_of(result: ChangeResult) -> Iterator[str | bytes]:
    written: tuple[tuple[str, Mapping[str, Entity | None]], ...] = (
        (_TEAM, result.teams),
        (_KEY, result.keys),
        (_WORKER, result.workers),
        (_ROUTE, result.routes),
        (_ACCESS, result.access),
    )
    for which, entities in written:
        for name, entity in entities.items():
            yield from (which, name, b"" if entity is None else row_of(entity))
