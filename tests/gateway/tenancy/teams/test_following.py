import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gateway.protocol.errors import InvalidKey, StoreUnavailable
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from gateway.storage.unfit import lost, replaced
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.access import Access
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.following import Following
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.redis_teams import RedisTeamStore
from gateway.tenancy.teams.rotation import rotated
from gateway.tenancy.teams.secret import Digester, new_secret
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import DeleteKey, PutKey, PutTeam, Snapshot, TeamStore
from tests.storage import RedisServer

PATIENCE_S = 30.0
AUDIT = AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="update", kind="key", id="ci")
BLUE = Team("blue")
DIGESTER = Digester(b"pepper")


class Loads:
    """A store that returns *snapshots* one after the other and repeats the last one, or is unavailable."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = list(snapshots)
        self.fault: Exception | None = None
        self.asked = 0
        self.changed = asyncio.Event()

    async def load(self) -> Snapshot:
        self.asked += 1
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]

    async def changes(self) -> AsyncGenerator[None, None]:
        while True:
            if self.fault is not None:
                raise self.fault
            yield
            await self.changed.wait()
            self.changed.clear()

    async def identify(self, given: bytes | None) -> bytes:
        raise NotImplementedError

    async def initialize(self, given: bytes | None) -> bytes:
        raise NotImplementedError

    async def write(self, change: object, audit: AuditEntry) -> Snapshot:
        raise NotImplementedError

    async def note(self, audit: AuditEntry) -> None:
        raise NotImplementedError

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> object:
        raise NotImplementedError


@asynccontextmanager
async def followed(store: object, directory: Directory) -> AsyncIterator[Following]:
    following = Following(store, directory, again_s=0.01)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(following.run())
        yield following
        task.cancel()


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not claim():
            await asyncio.sleep(0.002)


def knows(directory: Directory, key_id: str) -> bool:
    return directory.caller(key_id) is not None


async def test_the_directory_is_filled_at_once() -> None:
    directory = Directory(is_followed=True)
    await Following(Loads(Snapshot(2, {"blue": BLUE})), directory).load()  # type: ignore[arg-type]

    assert ({"blue": BLUE}, 2, False) == (directory.teams, directory.revision, directory.is_behind)


async def test_a_store_unavailable_at_the_start_is_found_later() -> None:
    store, directory = Loads(Snapshot(2, {"blue": BLUE})), Directory(is_followed=True)
    store.fault = StoreUnavailable("gone")
    following = Following(store, directory)  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await following.load()
    assert following.is_unavailable

    async with followed(store, directory) as following:
        await until(lambda: following.is_unavailable)
        assert directory.is_behind
        store.fault = None
        await until(lambda: not following.is_unavailable)

    assert ({"blue": BLUE}, False) == (directory.teams, directory.is_behind)


@pytest.mark.parametrize("fault", [StoreUnavailable("gone"), RuntimeError("unexpected")])
async def test_an_outage_is_logged_once_and_known_keys_stay(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    store, directory = Loads(Snapshot(2, {"blue": BLUE})), Directory(is_followed=True)
    with caplog.at_level(logging.INFO, "gateway.tenancy.teams.following"):
        async with followed(store, directory) as following:
            await until(lambda: directory.revision == 2)
            store.fault = fault
            store.changed.set()
            await until(lambda: following.is_unavailable)
            asked = asyncio.get_running_loop().time()
            await until(lambda: asyncio.get_running_loop().time() > asked + 0.05)
            assert directory.is_behind
            assert {"blue": BLUE} == directory.teams
            store.fault = None
            await until(lambda: not following.is_unavailable)

    assert [
        f"the store of teams and keys is unavailable, but known keys stay valid: {fault}",
        "the store of teams and keys is available again",
    ] == caplog.messages
    assert isinstance(fault, RuntimeError) == (caplog.records[0].exc_info is not None)


async def test_an_unfit_store_is_logged_as_such_and_known_keys_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The loss of data is logged once, apart from the outage before it, and known keys stay."""
    store, directory = Loads(Snapshot(2, {"blue": BLUE})), Directory(is_followed=True)
    following = Following(store, directory)  # type: ignore[arg-type]
    states = [following.state]
    for fault in (None, StoreUnavailable("gone"), lost(), lost(), None):
        store.fault = fault
        with suppress(StoreUnavailable):
            await following.load()
        states.append(following.state)
        assert {"blue": BLUE} == directory.teams or states == ["awaited"]

    assert ["awaited", "ready", "away", "lost", "lost", "ready"] == states
    assert following.has_been_heard
    assert [
        "the store of teams and keys is unavailable, but known keys stay valid: gone",
        f"the store of teams and keys cannot be used, but known keys stay valid: {lost()}",
    ] == caplog.messages


async def test_nothing_is_loaded_from_a_store_that_was_not_identified() -> None:
    """Its keys were made under another pepper."""
    store, directory = Loads(Snapshot(2, {"blue": BLUE})), Directory(is_followed=True)
    faults: list[StoreUnavailable] = [replaced(), StoreUnavailable("gone")]

    async def identify() -> None:
        if faults:
            raise faults.pop(0)

    following = Following(store, directory, identify=identify)  # type: ignore[arg-type]
    for state in ("replaced", "away"):
        with pytest.raises(StoreUnavailable):
            await following.catch_up()
        assert (state, 0, {}) == (following.state, store.asked, directory.teams)
        assert not following.has_been_heard
    await following.load()
    await following.load()

    assert ("ready", "", {"blue": BLUE}) == (following.state, following.fault, directory.teams)


async def test_an_answer_from_before_a_change_of_our_own_is_not_taken() -> None:
    """It was read while the admin API wrote. Otherwise a revoked key would be valid for another moment."""
    store, directory = Loads(Snapshot(4, {"blue": BLUE}), Snapshot(5)), Directory(is_followed=True)
    directory.apply(Snapshot(5))
    await Following(store, directory).load()  # type: ignore[arg-type]

    assert (5, {}) == (directory.revision, directory.teams)


async def test_a_store_that_was_emptied_is_followed_too() -> None:
    store, directory = Loads(Snapshot(0)), Directory(is_followed=True)
    directory.apply(Snapshot(5, {"blue": BLUE}))
    await Following(store, directory).load()  # type: ignore[arg-type]

    assert (0, {}) == (directory.revision, directory.teams)


async def test_all_who_catch_up_share_one_answer() -> None:
    """However many unknown keys arrive, the store is read a few times only."""
    store, directory = Loads(Snapshot(1)), Directory(is_followed=True)
    following = Following(store, directory)  # type: ignore[arg-type]
    await asyncio.gather(*(following.catch_up() for _ in range(1000)))

    assert 1 == store.asked


async def test_a_later_call_gets_a_later_read() -> None:
    """A read that began before a change does not serve a call after it."""
    store, directory = Loads(Snapshot(1)), Directory(is_followed=True)
    following = Following(store, directory)  # type: ignore[arg-type]
    first = asyncio.ensure_future(following.catch_up())
    await until(lambda: store.asked == 1)
    store.snapshots = [Snapshot(2)]
    await asyncio.gather(following.catch_up(), following.catch_up())
    await first

    assert (2, 2) == (store.asked, directory.revision)


async def test_a_call_that_waits_for_an_unavailable_store_fails() -> None:
    store, directory = Loads(Snapshot(1)), Directory(is_followed=True)
    store.fault = StoreUnavailable("gone")
    following = Following(store, directory)  # type: ignore[arg-type]
    answers = await asyncio.gather(*(following.catch_up() for _ in range(3)), return_exceptions=True)

    assert isinstance(answers[0], StoreUnavailable)
    assert directory.is_behind


# ---- with real stores

Stores = Callable[[], TeamStore]
"""Returns another object of the same store each time."""


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Stores]:
    files: list[SqliteFile] = []

    def made() -> TeamStore:
        files.append(SqliteFile(tmp_path / "warmgate.db"))
        return SqliteTeamStore(files[-1])

    yield made
    for file in files:
        await file.aclose()


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Stores]:
    links = [redis_link(redis_server.url, timeout_s=PATIENCE_S) for _ in range(4)]
    rest = iter(links)
    yield lambda: RedisTeamStore(next(rest))
    for link in links:
        await link.aclose()


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def stores(request: pytest.FixtureRequest) -> Stores:
    stores: Stores = request.getfixturevalue(request.param)
    return stores


def access(directory: Directory, catch_up: Following | None = None) -> Access:
    ask = None if catch_up is None else catch_up.catch_up
    return Access(directory, DIGESTER, wall_clock=lambda: 1000.0, catch_up=ask)


def bearer(secret: str) -> Callable[[bytes], str | None]:
    return {b"authorization": f"Bearer {secret}"}.get


def passes(at: Access, secret: str) -> bool:
    try:
        return at.caller(bearer(secret), "192.0.2.1") is not None
    except (InvalidKey, StoreUnavailable):
        return False


async def test_a_revocation_reaches_every_replica(stores: Stores) -> None:
    secret = new_secret("ci")
    writer, replicas = stores(), [Directory(is_followed=True) for _ in range(3)]
    await writer.write(PutTeam(BLUE), AUDIT)
    await writer.write(PutKey(Key("ci", "blue", DIGESTER.digest(secret))), AUDIT)
    async with followed(stores(), replicas[0]), followed(stores(), replicas[1]), followed(stores(), replicas[2]):
        await until(lambda: all(passes(access(each), secret) for each in replicas))
        await writer.write(DeleteKey("ci"), AUDIT)
        await until(lambda: not any(passes(access(each), secret) for each in replicas))


async def test_a_key_counts_at_every_replica_as_soon_as_it_is_made(stores: Stores) -> None:
    """A new key is valid at once at every gateway, even without background reads."""
    writer, directory = stores(), Directory(is_followed=True)
    following = Following(stores(), directory)
    await following.load()
    at = access(directory, following)
    for n in range(5):
        secret = new_secret(f"k{n}")
        if n == 0:
            await writer.write(PutTeam(BLUE), AUDIT)
        await writer.write(PutKey(Key(f"k{n}", "blue", DIGESTER.digest(secret))), AUDIT)
        assert not passes(at, secret)
        assert await at.sure_caller(bearer(secret), None) is directory.caller(f"k{n}") is not None

    with pytest.raises(InvalidKey):
        await at.sure_caller(bearer("wg-x-unknown"), None)


async def test_a_rotation_with_grace_drops_no_request(stores: Stores) -> None:
    """Clients use two replicas, which learn of each secret at different times within the grace period of the former
    one."""
    secrets = [new_secret("ci") for _ in range(4)]
    writer, replicas = stores(), [Directory(is_followed=True) for _ in range(2)]
    await writer.write(PutTeam(BLUE), AUDIT)
    key = Key("ci", "blue", DIGESTER.digest(secrets[0]))
    await writer.write(PutKey(key), AUDIT)
    served: list[str] = []

    async def client(at: Access) -> None:
        while secrets[-1] not in served[-20:]:
            for place in (0, 1):
                secret = at_hand[place]
                caller = await at.sure_caller(bearer(secret), None)
                assert caller is not None
                served.append(secret)
            await asyncio.sleep(0.001)

    async with followed(stores(), replicas[0]) as one, followed(stores(), replicas[1]) as other:
        await asyncio.gather(one.load(), other.load())
        at_hand = [secrets[0], secrets[0]]  # one client is up to date, the other one rotation behind
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as clients:
            for following, replica in ((one, replicas[0]), (other, replicas[1])):
                clients.create_task(client(access(replica, following)))
            for secret in secrets[1:]:
                begun = len(served)
                await until(lambda begun=begun: len(served) > begun + 20)  # type: ignore[misc]
                at_hand[1] = at_hand[0]
                after = rotated(key, DIGESTER.digest(secret), grace_s=60.0, now=1000.0)
                await writer.write(PutKey(after, key), AUDIT)
                key = after
                at_hand[0] = secret

    assert set(secrets) == set(served)


@pytest.mark.redis
async def test_a_redis_that_is_killed_and_comes_back_is_followed_again(durable_redis_server: RedisServer) -> None:
    """Meanwhile known keys are served, and unknown keys get a 503."""
    server, secret, directory = durable_redis_server, new_secret("ci"), Directory(is_followed=True)
    writing, reading = redis_link(server.url, timeout_s=PATIENCE_S), redis_link(server.url)
    writer = RedisTeamStore(writing)
    await writer.write(PutTeam(BLUE), AUDIT)
    key = Key("ci", "blue", DIGESTER.digest(secret))
    await writer.write(PutKey(key), AUDIT)
    async with followed(RedisTeamStore(reading), directory) as following:
        at = access(directory, following)
        await until(lambda: passes(at, secret))
        server.kill()
        await until(lambda: following.is_unavailable)
        assert passes(at, secret)
        with pytest.raises(StoreUnavailable):
            await at.sure_caller(bearer("wg-x-new"), None)

        server.start()
        await until(lambda: not following.is_unavailable)
        assert passes(at, secret)
        await until_written(writer, DeleteKey("ci"))
        await until(lambda: not passes(at, secret))
    await writing.aclose()
    await reading.aclose()


@pytest.mark.redis
async def test_a_redis_that_hangs_is_unavailable(redis_server: RedisServer) -> None:
    """Its connections stay open without answers."""
    link, directory = redis_link(redis_server.url), Directory(is_followed=True)
    async with followed(RedisTeamStore(link), directory) as following:
        await until(lambda: not directory.is_behind)
        redis_server.freeze()
        await until(lambda: following.is_unavailable)
        redis_server.thaw()
        await until(lambda: not following.is_unavailable)
    await link.aclose()


async def until_written(store: TeamStore, change: DeleteKey) -> None:
    """Write again until a breaker is closed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await store.write(change, AUDIT)
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return
