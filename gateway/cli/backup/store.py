"""Backup, restore and check of the store that the settings name.

Failures are raised as `StoreUnavailable` with a readable message.
"""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.app.store_rules import StoreAddressError, StoreRules
from gateway.app.stores import stores_of
from gateway.cli.backup import sqlite_backup
from gateway.cli.backup.backup_file import BackupBroken, read_header
from gateway.cli.backup.check import faults_of, redis_faults, sqlite_faults
from gateway.cli.backup.redis_backup import RedisBackup
from gateway.protocol.errors import StoreUnavailable
from gateway.storage.file_lock import FileLock, FileTaken
from gateway.storage.redis_link import RedisLink, redis_link
from gateway.storage.sqlite_file import SqliteFile
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.teams.identity import SCHEMA
from gateway.tenancy.teams.secret import fingerprint

QUESTION_S = 60.0
"""Seconds until a command's query to the store times out. A list of all keys in a large Redis takes seconds."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of the check of a store."""

    identity: str
    fingerprint: str
    teams: int
    keys: int
    workers: int
    faults: list[str]


async def back_up(rules: StoreRules, path: Path, *, with_pepper: bool, wall_clock: Callable[[], float]) -> None:
    """Write a backup of the store to the new file *path*. Gateways can continue to use the store.

    Raises:
        StoreUnavailable: if the store cannot be used.
        OSError: if the backup file exists already or cannot be written.
    """
    file = rules.file
    if file is not None:
        sqlite_backup.back_up(file, path, with_pepper=with_pepper)
        return
    async with _linked(rules) as link:
        now = datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds")
        await RedisBackup(link, wall_clock=wall_clock).write(path, written_at=now, with_pepper=with_pepper)


async def restore(rules: StoreRules, path: Path, *, force: bool, wall_clock: Callable[[], float]) -> None:
    """Restore the backup at *path* into the store.

    If *force* is true, replace the contents of a store that is not empty.

    Raises:
        StoreUnavailable: if the store cannot be used or is not empty, the backup is damaged, or no pepper matches it.
        OSError: if the backup cannot be read.
    """
    file = rules.file
    if file is not None:
        _restore_file(rules, path, file, force=force)
        return
    try:
        header = read_header(path)
    except BackupBroken as fault:
        raise StoreUnavailable(str(fault)) from None
    if header.schema > SCHEMA:
        text = (
            f"The backup has schema version {header.schema}, but this Warmgate supports versions up to {SCHEMA}. "
            "Use a later Warmgate"
        )
        raise StoreUnfit(text, state="newer")
    async with _linked(rules) as link:
        backup = RedisBackup(link, wall_clock=wall_clock)
        if not force and not await backup.is_empty():
            raise _not_empty()
        kept = await backup.kept_pepper()
        pepper = _pepper_for(header.fingerprint, rules, kept=kept, has_own=header.has_pepper)
        await backup.clear()
        await backup.restore(path, pepper=pepper)


async def check(rules: StoreRules, teams: Collection[str], *, wall_clock: Callable[[], float]) -> Checked:
    """Check the identity, pepper, schema and consistency of the store.

    *teams* are the teams declared in the settings.

    Raises:
        StoreUnavailable: if the store cannot be used.
    """
    path = rules.file
    if path is not None and not path.exists():
        raise StoreUnavailable(f"The file {path.name} does not exist")
    stores = stores_of(rules, wall_clock=wall_clock)
    try:
        await stores.identify()
        snapshot, identity = await stores.teams.load(), stores.teams.identity
    finally:
        await stores.aclose()
    assert identity is not None
    if path is not None:
        file = SqliteFile(path)
        try:
            rows, faults = await sqlite_faults(file)
        finally:
            await file.aclose()
    else:
        async with _linked(rules) as link:
            rows, faults = await redis_faults(link, RedisBackup(link, wall_clock=wall_clock))
    faults = [*faults_of(snapshot, rows, set(teams)), *faults]
    return Checked(identity.id, identity.fingerprint, rows.teams, rows.keys, rows.workers, faults)


def _restore_file(rules: StoreRules, path: Path, file: Path, *, force: bool) -> None:
    identity, own = sqlite_backup.identity_in(path)
    try:
        lock = FileLock(file)
    except FileTaken:
        raise StoreUnavailable(f"A gateway is using the file {file.name}. Stop the gateway first") from None
    try:
        if not force and not sqlite_backup.is_empty(file):
            raise _not_empty()
        kept = None
        if file.exists():
            try:
                _, kept = sqlite_backup.identity_in(file)
            except StoreUnavailable:
                kept = None  # a damaged file is what a restore is for
        sqlite_backup.restore(
            path, file, pepper=_pepper_for(identity.fingerprint, rules, kept=kept, has_own=own is not None)
        )
    finally:
        lock.release()


def _pepper_for(expected: str, rules: StoreRules, *, kept: bytes | None, has_own: bool) -> bytes | None:
    """Return the pepper to write to the store, or None if the settings or the backup provide it.

    Raises:
        StoreUnfit: if no available pepper has the fingerprint *expected*.
    """
    given = rules.pepper
    if given is not None:
        if fingerprint(given) != expected:
            text = (
                f"store.pepper has the fingerprint {fingerprint(given)}, but the backup was made with the pepper "
                f"of fingerprint {expected}"
            )
            raise StoreUnfit(text, state="pepper_differs")
        return None
    if has_own:
        return None
    if kept is not None and fingerprint(kept) == expected:
        return kept
    text = f"The backup has no pepper. Set store.pepper to the pepper with the fingerprint {expected}"
    raise StoreUnfit(text, state="pepper_missing")


def _not_empty() -> StoreUnavailable:
    return StoreUnavailable("The store is not empty. Use --force to replace its contents with the backup")


@asynccontextmanager
async def _linked(rules: StoreRules) -> AsyncIterator[RedisLink]:
    try:
        link = redis_link(rules.url, timeout_s=max(QUESTION_S, rules.timeout_s))
    except ValueError as fault:
        raise StoreAddressError(f"{fault}.") from None
    try:
        yield link
    finally:
        await link.aclose()
