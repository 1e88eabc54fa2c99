"""Backup and restore of Warmgate's data in Redis, with the permissions of a gateway.

Teams, keys, added workers, weights of routes and access records are read at one point in time. All other data is read
key by key while
gateways keep writing. A request that finishes during the backup may therefore be in the usage sums but not in the
records, or in the records but not in the sums.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from redis.asyncio import Redis

from gateway.cli.backup.backup_file import BackupWriter, Header, read_records
from gateway.storage.redis_link import RedisLink
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.teams.identity import Identity
from gateway.tenancy.teams.redis_teams import ACCESS, CHANGES, IDENTITY, KEYS, PEPPER, REVISION, ROUTES, TEAMS, WORKERS

PREFIX = b"warmgate:"
_PASSING = (b"warmgate:replicas:", b"warmgate:quota:check")
"""Prefixes of Redis keys that gateways create again automatically. Backups omit these keys."""
BATCH: Final = 200
"""Number of Redis keys to read or write in one pipeline."""
PAGE: Final = 1000
"""Number of stream entries or hash fields in one backup record."""
VALUES: Final = 20_000
"""Number of values to write in one pipeline, which amounts to a few MB."""
_DIRECTORY = """
return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or '',
    redis.call('HGETALL', KEYS[4]), redis.call('HGETALL', KEYS[5]), redis.call('HGETALL', KEYS[6]),
    redis.call('HGETALL', KEYS[7]), redis.call('HGETALL', KEYS[8])}
"""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Content of one Redis key, or part of the content of a large key."""

    name: bytes
    kind: str
    """Redis type of the key: string, hash, set, zset or stream."""
    values: list[bytes]
    """List of fields and values, or of members and scores, without nesting.

    A stream entry has its ID, field count, fields and values.
    """
    expires_at_ms: int | None = None
    """Expiry of the key in milliseconds since 1970, or None if it never expires."""


class RedisBackup:
    """Backup and restore of the store that *link* connects to. *wall_clock* returns seconds since 1970."""

    def __init__(self, link: RedisLink, *, wall_clock: Callable[[], float]) -> None:
        self._link = link
        self._wall_clock = wall_clock

    async def write(self, path: Path, *, written_at: str, with_pepper: bool) -> int:
        """Write a backup to the new file *path*, and return the number of Redis keys in it.

        Raises:
            StoreUnfit: if the store is not initialized.
            StoreUnavailable: if the store cannot be reached.
            OSError: if the backup file exists already or cannot be written.
        """
        names = (IDENTITY, PEPPER, REVISION, TEAMS, KEYS, WORKERS, ROUTES, ACCESS)
        raw, pepper, revision, *hashes = await self._ask(lambda client: client.eval(_DIRECTORY, len(names), *names))
        if raw is None:
            raise StoreUnfit("The store is not initialized, so there is nothing to back up", state="uninitialized")
        identity = msgspec.json.decode(raw, type=Identity)
        has_pepper = with_pepper and bool(pepper)
        header = Header(identity.id, identity.fingerprint, identity.schema, has_pepper, written_at)
        count = 0
        with BackupWriter(path, header) as writer:
            kept = [(REVISION, revision), (PEPPER, pepper if has_pepper else b""), (IDENTITY, raw)]
            for name, values in zip((TEAMS, KEYS, WORKERS, ROUTES, ACCESS), hashes, strict=True):
                for page in _pages(values):
                    writer.write(Record(name.encode(), "hash", page))
            others = await self.names()
            others.difference_update(name.encode() for name in names)
            async for record in self._records(sorted(others)):
                writer.write(record)
                count += 1
            # The identity comes last: a store is one when all of it is there.
            for name, value in kept:
                if value:
                    writer.write(Record(name.encode(), "string", [value]))
            writer.finish()
        return count + len(kept)

    async def is_empty(self) -> bool:
        """Return whether the store contains no teams, keys, added workers and usage."""
        revision, usage = await self._ask(_revision), await self._ask(_has_usage)
        return revision is None and not usage

    async def kept_pepper(self) -> bytes | None:
        return cast("bytes | None", await self._ask(lambda client: client.get(PEPPER)))

    async def clear(self) -> None:
        """Delete all data of Warmgate in Redis. The identity is deleted first, so that gateways stop writing."""
        await self._ask(lambda client: client.delete(IDENTITY))
        names = sorted(await self.names())
        for begin in range(0, len(names), BATCH):
            batch = names[begin : begin + BATCH]
            await self._piped(lambda pipe, batch=batch: [pipe.execute_command("UNLINK", name) for name in batch])  # type: ignore[misc]

    async def restore(self, path: Path, *, pepper: bytes | None) -> int:
        """Restore the backup at *path* and return the number of its records. If *pepper* is not None, store it, too."""
        batch: list[Record] = []
        count = values = 0
        now_ms = self._wall_clock() * 1000
        for raw in read_records(path):
            record = msgspec.msgpack.decode(raw, type=Record)
            count += 1
            if record.expires_at_ms is None or record.expires_at_ms > now_ms:
                batch.append(record)
                values += len(record.values)
            if len(batch) == BATCH or values > VALUES or record.name == IDENTITY.encode():
                if pepper is not None:
                    batch.insert(0, Record(PEPPER.encode(), "string", [pepper]))
                    pepper = None
                await self._piped(partial(_put_all, batch))
                batch, values = [], 0
        await self._ask(lambda client: client.publish(CHANGES, b""))
        return count

    async def names(self) -> set[bytes]:
        """Return all Redis keys of Warmgate, except those that gateways create again automatically."""

        async def scan(client: "Redis") -> set[bytes]:
            return {name async for name in client.scan_iter(match=PREFIX + b"*", count=PAGE)}

        return {name for name in await self._link.ask(scan) if not name.startswith(_PASSING)}

    async def _records(self, names: Sequence[bytes]) -> AsyncIterator[Record]:
        for begin in range(0, len(names), BATCH):
            batch = names[begin : begin + BATCH]
            about = await self._piped(
                lambda pipe, batch=batch: [(pipe.type(name), pipe.pttl(name)) for name in batch]  # type: ignore[misc]
            )
            kinds = [kind.decode() for kind in about[::2]]
            now_ms = int(self._wall_clock() * 1000)
            ends = [None if left < 0 else now_ms + left for left in about[1::2]]
            whole = [place for place, kind in enumerate(kinds) if kind in _READS]
            values = await self._piped(
                lambda pipe, batch=batch, kinds=kinds, whole=whole: [  # type: ignore[misc]
                    _READS[kinds[place]](pipe, batch[place]) for place in whole
                ]
            )
            for place, value in zip(whole, values, strict=True):
                for page in _pages(_flat(kinds[place], value)):
                    yield Record(batch[place], kinds[place], page, ends[place])
            for place, kind in enumerate(kinds):
                if kind == "stream":
                    async for page in self._stream(batch[place]):
                        yield Record(batch[place], kind, page, ends[place])

    async def _stream(self, name: bytes) -> AsyncIterator[list[bytes]]:
        after = b"-"
        while True:
            rows = await self._ask(lambda client, after=after: client.xrange(name, after, "+", count=PAGE))  # type: ignore[misc]
            if rows:
                flat: list[bytes] = []
                for place, fields in rows:
                    flat += [place, b"%d" % len(fields)]
                    for field, value in fields.items():
                        flat += [field, value]
                yield flat
            if len(rows) < PAGE:
                return
            after = b"(" + rows[-1][0]

    async def _ask(self, question: Callable[["Redis"], Awaitable[Any]]) -> Any:
        return await self._link.ask(question)

    async def _piped(self, fill: Callable[[Any], object]) -> list[Any]:
        async def question(client: "Redis") -> list[Any]:
            pipe = client.pipeline(transaction=False)
            fill(pipe)
            return await pipe.execute()

        return await self._link.ask(question)


_READS: dict[str, Callable[[Any, bytes], object]] = {
    "string": lambda pipe, name: pipe.get(name),
    "hash": lambda pipe, name: pipe.hgetall(name),
    "set": lambda pipe, name: pipe.smembers(name),
    "zset": lambda pipe, name: pipe.zrange(name, 0, -1, withscores=True),
}


async def _revision(client: "Redis") -> Any:
    return await client.get(REVISION)


async def _has_usage(client: "Redis") -> Any:
    return await client.exists("warmgate:ledger:teams")


def _flat(kind: str, value: Any) -> list[bytes]:
    if kind == "string":
        return [] if value is None else [value]
    if kind == "hash":
        return [part for pair in value.items() for part in pair]
    if kind == "zset":
        return [part for member, score in value for part in (member, repr(score).encode())]
    return list(value)


def _pages(values: Sequence[bytes]) -> Iterable[list[bytes]]:
    size = 2 * PAGE
    return [list(values[begin : begin + size]) for begin in range(0, len(values), size)]


def _put_all(records: Sequence[Record], pipe: Any) -> None:
    for record in records:
        _put(pipe, record)


def _put(pipe: Any, record: Record) -> None:
    name, values = record.name, record.values
    pairs = list(zip(values[::2], values[1::2], strict=False))
    if record.kind == "string":
        pipe.set(name, values[0])
    elif record.kind == "hash":
        pipe.hset(name, mapping=dict(pairs))
    elif record.kind == "set":
        pipe.sadd(name, *values)
    elif record.kind == "zset":
        pipe.zadd(name, {member: float(score) for member, score in pairs})
    else:
        _put_stream(pipe, name, values)
    if record.expires_at_ms is not None:
        pipe.pexpireat(name, record.expires_at_ms)


def _put_stream(pipe: Any, name: bytes, values: Sequence[bytes]) -> None:
    place = 0
    while place < len(values):
        end = place + 2 + 2 * int(values[place + 1])
        fields = values[place + 2 : end]
        pipe.xadd(name, dict(zip(fields[::2], fields[1::2], strict=True)), id=values[place])
        place = end
