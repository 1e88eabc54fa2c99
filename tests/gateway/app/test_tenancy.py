"""Teams, keys, quotas and the ledger of one gateway: what there is at the start, and the outcome of it."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.app.mapping.tenancy import declared_in
from gateway.app.tenancy import Tenancy
from gateway.protocol.errors import Forbidden, InvalidKey, StoreUnavailable
from gateway.settings import SettingsError, build
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutKey, PutTeam
from tests.gateway.tenancy_examples import SECRET, a_team, a_tenancy, at_work
from tests.storage import RedisServers

MADE = "wg-made-0123456789"
NOTED = AuditEntry(time="2026-11-21T08:00:00.000Z", who="root", role="owner", action="create", kind="key", id="made")


def who(tenancy: Tenancy, secret: str | None = SECRET, *, peer: str = "127.0.0.1") -> str | None:
    """The team and the key of who brings *secret*; None: anybody on this machine."""
    headers = {} if secret is None else {b"authorization": f"Bearer {secret}"}
    caller = tenancy.access.caller(headers.get, peer, fields={b"host": b"localhost"})
    return None if caller is None else f"{caller.team.name}/{caller.key.id}"


async def make_key(tenancy: Tenancy, secret: str = MADE) -> None:
    digester = await tenancy.digester()
    await tenancy.stores.teams.write(PutTeam(Team(name="red")), NOTED)
    await tenancy.stores.teams.write(PutKey(Key(id="made", team="red", digest=digester.digest(secret))), NOTED)


async def known(tenancy: Tenancy, secret: str) -> str | None:
    async with asyncio.timeout(60):
        while True:
            try:
                return who(tenancy, secret)
            except (InvalidKey, StoreUnavailable):
                await asyncio.sleep(0.01)


def file_in(folder: Path) -> dict[str, Any]:
    return {"url": f"sqlite:///{folder}/warmgate.db"}


# ---- who may ask


async def test_without_teams_and_store_this_machine_may_ask(caplog: pytest.LogCaptureFixture) -> None:
    async with at_work(a_tenancy()) as tenancy:
        assert tenancy.is_open
        assert None is who(tenancy, None)
        with pytest.raises(Forbidden):
            who(tenancy, None, peer="10.0.0.9")

    assert [
        "no teams and no store are configured, so only programs on this machine can send requests"
    ] == caplog.messages


async def test_a_team_closes_the_gateway() -> None:
    """Its keys open it again, one by one."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        assert not tenancy.is_open
        assert "blue/ci" == who(tenancy)
        for secret in (None, "wrong"):
            with pytest.raises(InvalidKey):
                who(tenancy, secret)


async def test_a_store_closes_the_gateway_too(tmp_path: Path) -> None:
    """Although there is no team yet."""
    async with at_work(a_tenancy(store=file_in(tmp_path))) as tenancy:
        with pytest.raises(InvalidKey):
            who(tenancy, None)


async def test_a_team_that_is_made_closes_an_open_gateway() -> None:
    async with at_work(a_tenancy()) as tenancy:
        await make_key(tenancy)
        async with asyncio.timeout(60):
            while tenancy.access.is_open:
                assert None is who(tenancy, None)
                await asyncio.sleep(0.01)
        with pytest.raises(InvalidKey):
            who(tenancy, None)
        assert "red/made" == who(tenancy, MADE)


# ---- the pepper


async def test_keys_that_were_made_are_known_to_the_next_process(tmp_path: Path) -> None:
    """The pepper is kept in the store where the settings give none."""
    async with at_work(a_tenancy(store=file_in(tmp_path))) as first:
        await make_key(first)
    async with at_work(a_tenancy(a_team(), store=file_in(tmp_path))) as second:
        assert ("red/made", "blue/ci") == (who(second, MADE), who(second))


async def test_a_given_pepper_is_used_and_not_kept(tmp_path: Path) -> None:
    """Without it the store is of no use to anybody: not to the next gateway either."""
    store = file_in(tmp_path)
    async with at_work(a_tenancy(store={**store, "pepper": "p-0123456789"})) as first:
        await make_key(first)
        kept = (await first.stores.teams.load()).keys["made"].digest
    second = a_tenancy(store=store)
    with pytest.raises(StoreUnfit, match=r"Set store\.pepper to the pepper with the fingerprint [0-9a-f]{16}, "):
        await second.begin()
    await second.aclose()
    async with at_work(a_tenancy(store={**store, "pepper": "p-0123456789"})) as third:
        assert "red/made" == who(third, MADE)

    assert Digester(b"p-0123456789").digest(MADE) == kept
    assert b"p-0123456789" not in (tmp_path / "warmgate.db").read_bytes()


# ---- the settings


def test_two_keys_with_one_secret_are_refused_before_anything_starts() -> None:
    keys = [{"id": "ci", "secret": SECRET}, {"id": "other", "secret": SECRET}]
    with pytest.raises(SettingsError, match="'ci' and 'other' have the same secret") as caught:
        a_tenancy(a_team(keys=keys))

    assert SECRET not in str(caught.value)


async def test_another_declaration_counts_from_that_moment_on(tmp_path: Path) -> None:
    """Keys that are gone stop, those that came count, those that were made are not touched."""
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
    async with at_work(a_tenancy(a_team(), store=file_in(tmp_path))) as tenancy:
        await make_key(tenancy)
        await known(tenancy, MADE)
        green = {"name": "green", "keys": [{"id": "new", "secret": "s-new"}]}
        declaring = partial(declared_in, build({"models": [model], "teams": [green]}, {}))
        tenancy.declare(tenancy.declared(declaring), declaring)

        assert ("green/new", "red/made") == (who(tenancy, "s-new"), who(tenancy, MADE))
        with pytest.raises(InvalidKey):
            who(tenancy)


async def test_what_is_kept_in_memory_only_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with at_work(a_tenancy(a_team())):
        reported = caplog.messages[:]
        caplog.clear()
    async with at_work(a_tenancy(a_team(), store=file_in(tmp_path))):
        assert [] == caplog.messages

    assert ["store.url is not set, so usage, budgets and keys created at run time are lost on restart"] == reported


# ---- a store that is away


async def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """It would not come back by itself."""
    (tmp_path / "warmgate.db").write_bytes(b"This is no database. " * 100)
    tenancy = a_tenancy(a_team(), store=file_in(tmp_path))
    with pytest.raises(StoreUnavailable):
        await tenancy.begin()
    await tenancy.aclose()


@pytest.mark.redis
async def test_redis_may_come_later(redis_servers: RedisServers, caplog: pytest.LogCaptureFixture) -> None:
    """Until then declared keys count, and others may be new. Then those count that were made, under its pepper."""
    server = redis_servers.started(fsync="always")
    async with at_work(a_tenancy(store={"url": server.url})) as earlier:
        await earlier.stores.initialize()
        await make_key(earlier)
    server.kill()
    caplog.set_level(logging.INFO)
    async with at_work(a_tenancy(a_team(), store={"url": server.url})) as tenancy:
        assert "blue/ci" == who(tenancy)
        with pytest.raises(StoreUnavailable):
            who(tenancy, MADE)
        with pytest.raises(StoreUnavailable):
            await tenancy.digester()
        server.start()

        assert "red/made" == await known(tenancy, MADE)
        assert "blue/ci" == await known(tenancy, SECRET)
        with pytest.raises(InvalidKey):
            who(tenancy, "wrong")
    assert "the store of teams and keys is available again" in caplog.messages


async def test_a_changed_limit_template_changes_the_limits_of_its_teams(tmp_path: Path) -> None:
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
    team = a_team(limit_template="standard")
    templates = [[{"name": "standard", "limits": {"requests_per_minute": amount}}] for amount in (5, 50)]
    async with at_work(a_tenancy(team, store=file_in(tmp_path), limit_templates=templates[0])) as tenancy:
        limits = [tenancy.directory.teams["blue"].limits]
        settings = build({"models": [model], "teams": [team], "limit_templates": templates[1]}, {})
        tenancy.declare(tenancy.declared(partial(declared_in, settings)), partial(declared_in, settings))
        limits.append(tenancy.directory.teams["blue"].limits)

    assert [Limits(requests_per_minute=5), Limits(requests_per_minute=50)] == limits
