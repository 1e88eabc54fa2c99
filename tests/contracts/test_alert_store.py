"""Facts about what the gateway expects of any `AlertStore`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.alerts.alert import Alert, NewAlert
from gateway.tenancy.alerts.alert_store import AlertStore
from gateway.tenancy.alerts.redis_alerts import RedisAlerts
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from gateway.tenancy.quota.scope import Scope
from tests.gateway.examples import Clock
from tests.storage import PATIENCE_S, RedisServer

LATER = 4_000_000_000.0


class Stores(NamedTuple):
    """Stores of two kinds of messages in one place."""

    alerts: AlertStore
    batch_events: AlertStore


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    """Each keeps three alerts, and two of a team that callers can cause; each knows the receiver ``ops``."""
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "db")
        found = Stores(
            SqliteAlerts(file, wall_clock=Clock(), max_alerts=3, max_marks=2),
            SqliteAlerts(file, wall_clock=Clock(), name="batch_event", max_alerts=3, max_marks=2),
        )
        close = file.aclose
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        link = redis_link(server.url, timeout_s=PATIENCE_S)
        found = Stores(
            RedisAlerts(link, max_alerts=3, max_marks=2),
            RedisAlerts(link, name="batch_events", max_alerts=3, max_marks=2),
        )
        close = link.aclose
    for each in found:
        await each.begin(["ops"])
    yield found
    await close()


@pytest.fixture(params=["alerts", "batch_events"])
def store(request: pytest.FixtureRequest, stores: Stores) -> AlertStore:
    found: AlertStore = getattr(stores, request.param)
    return found


def new(mark: str, *, team: str = "blue", period: str = "2026-11", scope: Scope = "team") -> NewAlert:
    alert = Alert(
        id=mark,
        type="budget.threshold_reached",
        time="2026-11-21T08:00:00Z",
        team=team,
        scope=scope,
        name=team,
        model=None,
        budget="usd_per_month",
        period=period,
        limit=10.0,
        used=5.0,
        threshold=0.5,
    )
    return NewAlert(alert=alert, mark=mark, until=LATER)


async def ids(store: AlertStore, receiver: str = "ops", count: int = 10) -> list[str]:
    found = await store.waiting(receiver, count)
    return [msgspec.json.decode(each.body, type=Alert).id for each in found.alerts]


async def test_alerts_wait_in_the_order_in_which_they_were_added(store: AlertStore) -> None:
    for mark in "abc":
        assert "added" == await store.add(new(mark))

    assert (["a", "b", "c"], ["a", "b"]) == (await ids(store), await ids(store, count=2))


async def test_an_alert_is_added_once(store: AlertStore) -> None:
    """Even after its delivery; another team or period is another alert."""
    await store.add(new("a"))
    ((number, _),) = (await store.waiting("ops", 1)).alerts
    await store.delivered("ops", number)

    assert "known" == await store.add(new("a"))
    assert [] == await ids(store)
    assert ("added", "added") == (await store.add(new("a", team="red")), await store.add(new("a", period="2026-12")))


async def test_what_was_delivered_waits_no_longer_for_that_receiver(store: AlertStore) -> None:
    await store.begin(["ops", "finance"])
    for mark in "ab":
        await store.add(new(mark))
    (first, _) = (await store.waiting("ops", 1)).alerts[0]
    await store.delivered("ops", first)
    await store.delivered("ops", first - 1)  # of a gateway that was slower

    assert (["b"], ["a", "b"]) == (await ids(store), await ids(store, "finance"))


async def test_a_new_receiver_gets_only_later_alerts(store: AlertStore) -> None:
    await store.add(new("a"))
    await store.begin(["ops", "finance"])
    await store.add(new("b"))

    assert (["a", "b"], ["b"]) == (await ids(store), await ids(store, "finance"))
    assert [] == await ids(store, "unknown")


async def test_the_oldest_alerts_are_removed(store: AlertStore) -> None:
    """A receiver that does not answer for weeks must not fill the store."""
    for mark in "abcde":
        await store.add(new(mark))
    found = await store.waiting("ops", 10)

    assert (["c", "d", "e"], 2) == (await ids(store), found.removed)


async def test_the_alerts_that_callers_can_cause_are_bounded(store: AlertStore) -> None:
    """Callers choose the names of end users. Those of the operator's own budgets are always added."""
    assert ("added", "added") == (await store.add(new("a", scope="user")), await store.add(new("b", scope="session")))
    assert "crowded" == await store.add(new("c", scope="user"))
    assert ("added", "added") == (await store.add(new("d")), await store.add(new("e", team="red", scope="user")))


async def test_messages_of_one_kind_displace_none_of_another(stores: Stores) -> None:
    await stores.alerts.add(new("a"))
    for mark in "abcd":
        await stores.batch_events.add(new(mark))
    ((number, _),) = (await stores.batch_events.waiting("ops", 1)).alerts
    await stores.batch_events.delivered("ops", number)

    assert (["a"], ["c", "d"]) == (await ids(stores.alerts), await ids(stores.batch_events))


@pytest.mark.redis
async def test_one_gateway_delivers(redis_server: RedisServer) -> None:
    """Another one takes over when its lease ends."""
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    store = RedisAlerts(link)

    assert (True, False, True) == (
        await store.claim("x", 60),
        await store.claim("y", 60),
        await store.claim("x", 0.001),
    )
    while not await store.claim("y", 60):
        pass
    assert not await store.claim("x", 60)
    await link.aclose()


async def test_a_single_gateway_always_delivers(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "db")

    assert await SqliteAlerts(file, wall_clock=Clock()).claim("x", 1.0)
    await file.aclose()


async def test_old_marks_are_removed_from_the_file(tmp_path: Path) -> None:
    file, clock = SqliteFile(tmp_path / "db"), Clock()
    store = SqliteAlerts(file, wall_clock=clock)
    await store.begin(["ops"])
    await store.add(NewAlert(alert=new("a").alert, mark="a", until=clock() + 5.0))
    clock.now += 5.0
    await store.add(new("b"))
    rows = await file.run(lambda connection: connection.execute("SELECT mark FROM alert_marks").fetchall())

    assert [("b",)] == rows
    await file.aclose()
