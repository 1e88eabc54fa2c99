"""Changes of the configuration in the audit log."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.ledger.audit import AuditEntry
from gateway.settings import Settings
from gateway.settings_audit import SettingsAudit
from gateway.storage.sqlite_file import SqliteFile
from gateway.teams.declared import declared_in
from gateway.teams.secret import Digester
from gateway.teams.sqlite_teams import SqliteTeamStore
from tests.gateway.examples import Clock
from tests.gateway.settings.examples import parsed

MODEL = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-a"}]}


def settings(**groups: Any) -> Settings:
    return parsed(yaml.safe_dump({"models": [MODEL], **groups}))


class Audited:
    def __init__(self) -> None:
        self.file = SqliteFile(Path(":memory:"))
        self.store = SqliteTeamStore(self.file)
        self.audit = SettingsAudit(
            self.store,
            origin="warmgate.yaml",
            declared=lambda teams: declared_in(teams, Digester(b"p")),
            wall_clock=Clock(1_795_248_000.0),
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
    """By the file, and nothing but what is another."""
    other = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-a"}, {"url": "http://b:1"}]}
    await audited.audit.changed(
        settings(timeouts={"total_s": 100.0}), settings(models=[other], timeouts={"total_s": 200.0})
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
    """That one was replaced is."""
    one = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-b"}]}
    teams = [{"name": "blue", "keys": [{"id": "ci", "secret": "s-of-the-key-1"}]}]
    others = [{"name": "blue", "keys": [{"id": "ci", "secret": "s-of-the-key-2"}]}]
    await audited.audit.started(settings(teams=teams, store={"url": "redis://user:hidden@r:6379/0"}))
    await audited.audit.changed(settings(teams=teams), settings(models=[one], teams=others))
    entries = await audited.entries()
    shown = str(entries)

    assert [] == [secret for secret in ("k-a", "k-b", "s-of-the-key", "hidden") if secret in shown]
    assert "redis://(secret)@r:6379/0" in shown
    assert {
        "models[tiny].workers[worker-34e94dd0].api_key": "(another secret)",
        "teams[blue].keys[ci].secret": "(another secret)",
    } == entries[-1].after


async def test_declared_teams_and_keys_are_logged_like_those_of_the_admin_api(audited: Audited) -> None:
    blue = {"name": "blue", "weight": 1.0, "keys": [{"id": "ci", "secret": "s-1"}, {"id": "cd", "secret": "s-2"}]}
    after = [
        {"name": "blue", "weight": 2.0, "keys": [{"id": "ci", "secret": "s-3"}]},
        {"name": "red"},
    ]
    await audited.audit.changed(settings(teams=[blue]), settings(teams=after))
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
        settings(timeouts={"total_s": 100.0}),
        settings(timeouts={"total_s": 200.0}, queue={"low_share": 0.2}),
    )
    for each in (first, first, second, second, first):
        await audited.audit.started(each)
    start, *changes = await audited.entries()

    assert ("start", None) == (start.action, start.before)
    assert start.after is not None
    assert ("(secret)", 100.0) == (
        start.after["models[tiny].workers[worker-34e94dd0].api_key"],
        start.after["timeouts.total_s"],
    )
    assert [
        ({"timeouts.total_s": 100.0}, {"timeouts.total_s": 200.0, "queue.low_share": 0.2}),
        ({"timeouts.total_s": 200.0, "queue.low_share": 0.2}, {"timeouts.total_s": 100.0}),
    ] == [(each.before, each.after) for each in changes]


async def test_what_was_changed_while_it_ran_is_not_new_at_the_next_start(audited: Audited) -> None:
    one = {"name": "tiny", "workers": [{"url": "http://a:1", "api_key": "k-b"}]}
    await audited.audit.started(settings())
    await audited.audit.changed(settings(), settings(models=[one]))
    await audited.audit.started(settings(models=[one]))

    assert ["start", "update"] == [each.action for each in await audited.entries()]


async def test_long_values_are_cut(audited: Audited) -> None:
    """Two of them that begin alike are told apart."""
    texts = [
        settings(guardrails=[{"name": "w", "kind": "words", "words": ["a"], "replacement": c * 400}]) for c in "xy"
    ]
    await audited.audit.changed(*texts)
    (entry,) = await audited.entries()

    assert entry.after is not None
    assert 350 > len(entry.after["guardrails[w].replacement"])
