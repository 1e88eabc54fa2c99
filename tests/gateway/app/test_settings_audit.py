"""Changes of the configuration in the audit log."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.app.live_settings import InForce
from gateway.app.mapping.tenancy import declared_in
from gateway.app.settings_audit import MAX_PLACES, MORE, SettingsAudit
from gateway.protocol.errors import StoreUnavailable
from gateway.settings import Settings
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.ledger.audit import AuditEntry, AuditPage
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.workers.worker_spec import WorkerSpec
from tests.gateway.examples import Clock
from tests.gateway.settings.examples import parsed

MODEL = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-a"}]}


def settings(**groups: Any) -> Settings:
    return parsed(yaml.safe_dump({"models": [MODEL], **groups}))


def in_force(**groups: Any) -> InForce:
    return InForce(settings(**groups))


def at(settled: InForce) -> Callable[[], InForce]:
    """Settings that do not change."""
    return lambda: settled


class Audited:
    """Gateways that share a store, each with a pair of objects of its own."""

    def __init__(self) -> None:
        self.file = SqliteFile(Path(":memory:"))
        self.store = SqliteTeamStore(self.file)
        self.audit = self.another()

    def another(self, pepper: bytes = b"p") -> SettingsAudit:
        async def digester() -> Digester:
            return Digester(pepper)

        clock = Clock(1_795_248_000.0)
        return SettingsAudit(
            self.store,
            claims=SqliteClaims(self.file, wall_clock=clock),
            origin="warmgate.yaml",
            declared=lambda in_force: declared_in(in_force.settings, Digester(pepper)),
            digester=digester,
            wall_clock=clock,
        )

    async def entries(self) -> list[AuditEntry]:
        """The oldest first."""
        return list(reversed((await self.store.audit()).items))


@pytest.fixture
async def audited() -> AsyncIterator[Audited]:
    made = Audited()
    yield made
    await made.file.aclose()


async def test_a_change_is_logged_with_what_it_changed(audited: Audited) -> None:
    other = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-a"}, {"url": "http://b:1"}]}
    await audited.audit.changed(
        in_force(timeouts={"total_s": 100.0}), in_force(models=[other], timeouts={"total_s": 200.0})
    )
    (entry,) = await audited.entries()

    assert ("file:warmgate.yaml", "file", "update", "settings", "configuration") == (
        *(entry.who, entry.role, entry.action, entry.kind, entry.id),
    )
    assert {"timeouts.total_s": 100.0} == entry.before
    assert {
        "timeouts.total_s": 200.0,
        "models[tiny].workers[worker-e6e6e25d].url": "http://b:1",
        "models[tiny].workers[worker-e6e6e25d].id": "worker-e6e6e25d",
    } == entry.after


async def test_secrets_are_not_shown(audited: Audited) -> None:
    one = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-b"}]}
    teams = [{"name": "blue", "keys": [{"id": "ci", "secret": "s-of-the-key-1"}]}]
    others = [{"name": "blue", "keys": [{"id": "ci", "secret": "s-of-the-key-2"}]}]
    await audited.audit.started(at(in_force(teams=teams, store={"url": "redis://user:hidden@r:6379/0"})))
    await audited.audit.changed(in_force(teams=teams), in_force(models=[one], teams=others))
    entries = await audited.entries()
    shown = str(entries)

    assert [] == [secret for secret in ("k-a", "k-b", "s-of-the-key", "hidden") if secret in shown]
    assert re.search(r"redis://\(secret [0-9a-f]{16}\)@r:6379/0", shown)
    assert entries[-1].before is not None
    assert entries[-1].after is not None
    for place in ("models[tiny].workers[worker-34e94dd0].api_key", "teams[blue].keys[ci].secret"):
        was, now = entries[-1].before.pop(place), entries[-1].after.pop(place)
        assert re.fullmatch(r"\(secret [0-9a-f]{16}\)", was)
        assert re.fullmatch(r"\(another secret [0-9a-f]{16}\)", now)
        assert was[8:] != now[16:]
    assert ({}, {}) == (entries[-1].before, entries[-1].after)


async def test_declared_teams_and_keys_are_logged_like_those_of_the_admin_api(audited: Audited) -> None:
    blue = {"name": "blue", "weight": 1.0, "keys": [{"id": "ci", "secret": "s-1"}, {"id": "cd", "secret": "s-2"}]}
    after = [
        {"name": "blue", "weight": 2.0, "keys": [{"id": "ci", "secret": "s-3"}]},
        {"name": "red"},
    ]
    await audited.audit.changed(in_force(teams=[blue]), in_force(teams=after))
    entries = await audited.entries()

    assert [
        ("update", "team", "blue", "blue"),
        ("create", "team", "red", "red"),
        ("delete", "key", "cd", "blue"),
        ("rotate", "key", "ci", "blue"),
        ("update", "settings", "configuration", None),
    ] == [(each.action, each.kind, each.id, each.team) for each in entries]
    assert [(1.0, 2.0)] == [
        (each.before["weight"], each.after["weight"]) for each in entries[:1] if each.before and each.after
    ]


async def test_what_changes_between_two_starts_is_logged(audited: Audited) -> None:
    """The first start logs all settings; one without a change logs nothing."""
    first, second = (
        in_force(timeouts={"total_s": 100.0}),
        in_force(timeouts={"total_s": 200.0}, queue={"low_share": 0.2}),
    )
    for each in (first, first, second, second, first):
        await audited.audit.started(at(each))
    start, *changes = await audited.entries()

    assert ("start", None) == (start.action, start.before)
    assert start.after is not None
    assert start.after["models[tiny].workers[worker-34e94dd0].api_key"].startswith("(secret ")
    assert 100.0 == start.after["timeouts.total_s"]
    assert [
        ({"timeouts.total_s": 100.0}, {"timeouts.total_s": 200.0, "queue.low_share": 0.2}),
        ({"timeouts.total_s": 200.0, "queue.low_share": 0.2}, {"timeouts.total_s": 100.0}),
    ] == [(each.before, each.after) for each in changes]


async def test_what_was_changed_while_it_ran_is_not_new_at_the_next_start(audited: Audited) -> None:
    one = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-b"}]}
    await audited.audit.started(at(in_force()))
    await audited.audit.changed(in_force(), in_force(models=[one]))
    await audited.audit.started(at(in_force(models=[one])))

    assert ["start", "update"] == [each.action for each in await audited.entries()]


async def test_long_values_are_cut(audited: Audited) -> None:
    """Two of them that begin alike are distinguished."""
    texts = [
        in_force(guardrails=[{"name": "w", "kind": "words", "words": ["a"], "replacement": c * 400}]) for c in "xy"
    ]
    await audited.audit.changed(texts[0], texts[1])
    (entry,) = await audited.entries()

    assert entry.after is not None
    assert 350 > len(entry.after["guardrails[w].replacement"])


async def test_a_secret_that_was_replaced_between_two_starts_is_noticed(audited: Audited) -> None:
    """Also a password in an address; the same ones at the next start are not new."""
    place, url = "models[tiny].workers[worker-34e94dd0].api_key", "redis://u:{}@r:6379/0"
    one = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-b"}]}
    await audited.audit.started(at(in_force(store={"url": url.format("p-1")})))
    await audited.another().started(at(in_force(models=[one], store={"url": url.format("p-1")})))
    await audited.another().started(at(in_force(models=[one], store={"url": url.format("p-1")})))
    await audited.another().started(at(in_force(models=[one], store={"url": url.format("p-2")})))
    _, worker, store = await audited.entries()

    assert worker.after is not None
    assert {place} == worker.after.keys()
    assert worker.after[place].startswith("(another secret ")
    assert ({"store.url"}, {"store.url"}) == (set(store.before or {}), set(store.after or {}))
    assert [] == [secret for secret in ("k-a", "k-b", "p-1", "p-2") if secret in str(await audited.entries())]


async def test_the_fingerprint_of_a_secret_is_of_no_use_elsewhere(audited: Audited) -> None:
    """It depends on the pepper and on the place, and is no part of the digest of a key."""
    secret = "s-of-the-key-1"
    teams = [{"name": "blue", "keys": [{"id": "ci", "secret": secret}]}]
    worker = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": secret}]}
    await audited.audit.started(at(in_force(models=[worker], teams=teams)))
    (entry,) = await audited.entries()
    shown = [value[8:-1] for value in (entry.after or {}).values() if str(value).startswith("(secret ")]

    assert 2 == len(set(shown))
    assert not any(Digester(b"p").digest(secret).startswith(fingerprint) for fingerprint in shown)


async def test_gateways_that_share_a_store_log_a_change_once(audited: Audited) -> None:
    """At the same moment or one after another, and again each time that it is made."""
    gateways = [audited.another() for _ in range(3)]
    one, other = in_force(timeouts={"total_s": 100.0}), in_force(timeouts={"total_s": 200.0})
    await asyncio.gather(*(each.started(at(one)) for each in gateways))
    await asyncio.gather(*(each.changed(one, other) for each in gateways))
    for each in gateways:
        await each.changed(other, one)
    await asyncio.gather(*(each.changed(one, other) for each in gateways))

    assert [100.0, 200.0, 100.0, 200.0] == [(each.after or {})["timeouts.total_s"] for each in await audited.entries()]


async def test_a_secret_replaced_under_running_gateways_is_logged_once(audited: Audited) -> None:
    gateways = [audited.another() for _ in range(2)]
    after = in_force(models=[{"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-b"}]}])
    for each in gateways:
        await each.started(at(in_force()))
    for each in gateways:
        await each.changed(in_force(), after)

    assert ["start", "update"] == [each.action for each in await audited.entries()]


async def test_a_change_that_its_gateway_never_logs_is_logged_by_another(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was to has died in between."""
    monkeypatch.setattr("gateway.app.settings_audit.LOOK_S", 0.0)
    one, other = in_force(timeouts={"total_s": 100.0}), in_force(timeouts={"total_s": 200.0})
    await audited.audit.started(at(one))
    dying = audited.another()
    dying._store = Dying(audited.file)
    with pytest.raises(StoreUnavailable):
        await dying.changed(one, other)
    await audited.another().changed(one, other)

    assert ["start", "update"] == [each.action for each in await audited.entries()]


class Dying(SqliteTeamStore):
    """Its gateway ends before anything is logged."""

    async def note(self, audit: AuditEntry) -> None:
        raise StoreUnavailable("it is gone")


async def test_workers_that_a_file_lists_are_settings(audited: Audited) -> None:
    """What another set of them changes is logged, by that file."""

    def listing(*names: str) -> InForce:
        found = tuple(WorkerSpec(f"http://{name}:1", name, api_key="k-f") for name in names)
        return InForce(settings(), {"tiny": found})

    await audited.audit.started(at(listing("b")))
    await audited.audit.changed(listing("b"), listing("b", "c"), "workers.yaml")
    await audited.another().started(at(listing("b", "c")))
    start, change = await audited.entries()

    urls = [value for place, value in (start.after or {}).items() if place.startswith("models[tiny].workers_file[")]
    assert "http://b:1" in urls
    assert ("file:workers.yaml", {}) == (change.who, change.before)
    assert {"url", "api_key", "id"} >= {place.rpartition(".")[2] for place in change.after or {}}
    assert "http://c:1" in (change.after or {}).values()
    assert "k-f" not in str([start, change])


async def test_of_very_many_settings_a_digest_is_compared(audited: Audited) -> None:
    """An entry is bounded, and the same ones are the same."""

    def many(last: str) -> InForce:
        found = tuple(WorkerSpec(f"http://w-{number:05d}:1", f"w-{number:05d}") for number in range(2 * MAX_PLACES))
        return InForce(settings(), {"tiny": (*found, WorkerSpec(last, "last"))})

    await audited.audit.started(at(many("http://one:1")))
    await audited.another().started(at(many("http://one:1")))
    await audited.another().started(at(many("http://other:1")))
    start, change = await audited.entries()

    assert MAX_PLACES == len(start.after or {})
    assert ({MORE}, {MORE}) == (set(change.before or {}), set(change.after or {}))


async def test_what_changed_while_the_store_was_away_at_the_start_is_not_taken_back(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in force when the store is there is compared with the log, and not what was at the start."""
    monkeypatch.setattr("gateway.app.settings_audit.AGAIN_S", 0.0)
    now = one = in_force(timeouts={"total_s": 100.0})
    other = in_force(timeouts={"total_s": 200.0})
    await audited.audit.started(at(one))
    late = audited.another()
    late._store = store = Away(audited.file)
    starting = asyncio.create_task(late.started(lambda: now))
    await store.asked.wait()
    now = other
    await audited.another().changed(one, other)
    store.is_away = False
    await starting

    assert ["start", "update"] == [each.action for each in await audited.entries()]


class Away(SqliteTeamStore):
    """Its log cannot be read for a while."""

    def __init__(self, file: SqliteFile) -> None:
        super().__init__(file)
        self.is_away = True
        self.asked = asyncio.Event()

    async def audit(self, cursor: str | None = None, *, most: int = 100) -> AuditPage:
        self.asked.set()
        if self.is_away:
            raise StoreUnavailable("it is away")
        return await super().audit(cursor, most=most)
