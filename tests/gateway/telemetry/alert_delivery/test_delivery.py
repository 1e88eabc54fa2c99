"""Alerts reach receivers in order, and an alert that is not accepted is sent again."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import SqliteFile
from gateway.telemetry.alert_delivery.delivery import GIVE_UP_S, Delivery, Failure
from gateway.tenancy.alerts.alert import Alert
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from tests.gateway.examples import Clock
from tests.gateway.telemetry.alert_delivery.examples import SENT, a_new_alert

DOWN = Failure("HTTP 503")
REFUSED = Failure("HTTP 400", is_refusal=True)


@dataclass
class Inbox:
    """Accepts alerts, except with the answers in *answers*, which come first."""

    name: str = "ops"
    answers: list[Failure | None] = field(default_factory=list)
    got: list[str] = field(default_factory=list)

    async def send(self, alert: Alert) -> Failure | None:
        failure = self.answers.pop(0) if self.answers else None
        if failure is None:
            self.got.append(alert.id)
        return failure


class Shared(SqliteAlerts):
    """*is_sender*: whether this gateway holds the lease."""

    is_sender = True

    async def claim(self, sender: str, lease_s: float) -> bool:
        return self.is_sender


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SqliteFile]:
    file = SqliteFile(tmp_path / "db")
    yield file
    await file.aclose()


@pytest.fixture
async def store(file: SqliteFile) -> Shared:
    store = Shared(file, wall_clock=Clock(SENT), max_alerts=3)
    await store.begin(["ops", "finance"])
    return store


def delivery(store: SqliteAlerts, *receivers: Inbox, clock: Clock | None = None) -> Delivery[Alert]:
    return Delivery(
        *(Alert, store, receivers), sender="x", wall_clock=clock or Clock(SENT), poll_s=0.001, first_pause_s=0.001
    )


async def test_alerts_are_delivered_once_and_in_order(store: Shared) -> None:
    inbox = Inbox()
    deliver = delivery(store, inbox)
    for id_ in "ab":
        await store.add(a_new_alert(id_))

    assert (None, None) == (await deliver.deliver(inbox), await deliver.deliver(inbox))
    assert (["a", "b"], 2) == (inbox.got, deliver.counts["ops", "delivered"])


async def test_an_alert_that_fails_holds_back_those_after_it(store: Shared) -> None:
    inbox = Inbox(answers=[None, DOWN])
    deliver = delivery(store, inbox)
    for id_ in "abc":
        await store.add(a_new_alert(id_))

    assert DOWN == await deliver.deliver(inbox)
    assert ["a"] == inbox.got
    assert None is await deliver.deliver(inbox, failures=1)
    assert ["a", "b", "c"] == inbox.got
    assert (3, 1, 0) == tuple(deliver.counts["ops", each] for each in ("delivered", "failed", "dropped"))


async def test_an_alert_that_is_refused_ten_times_is_dropped(store: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise, no later alert would arrive. A receiver that is down gets more time."""
    inbox = Inbox(answers=[REFUSED, REFUSED])
    deliver = delivery(store, inbox)
    for id_ in "ab":
        await store.add(a_new_alert(id_))

    assert REFUSED == await deliver.deliver(inbox, failures=8)
    assert None is await deliver.deliver(inbox, failures=9)
    assert (["b"], 1) == (inbox.got, deliver.counts["ops", "dropped"])
    assert "alert a was not delivered to ops: HTTP 400" in caplog.text


async def test_a_receiver_that_is_down_gets_its_alerts_for_three_days(store: Shared) -> None:
    inbox, clock = Inbox(answers=[DOWN, DOWN]), Clock(SENT + GIVE_UP_S)
    deliver = delivery(store, inbox, clock=clock)
    await store.add(a_new_alert("a"))

    assert DOWN == await deliver.deliver(inbox, failures=500)
    clock.now += 1.0
    assert None is await deliver.deliver(inbox, failures=501)
    assert ([], 1) == (inbox.got, deliver.counts["ops", "dropped"])


async def test_a_receiver_gets_only_the_messages_that_it_wants(store: Shared) -> None:
    """The others count as seen, and not as delivered."""
    inbox = Inbox()
    deliver = Delivery(
        *(Alert, store, [inbox]),
        wants=lambda name, alert: (name, alert.id) != ("ops", "a"),
        sender="x",
        wall_clock=Clock(SENT),
    )
    for id_ in "ab":
        await store.add(a_new_alert(id_))
    await deliver.deliver(inbox)

    assert (["b"], 1) == (inbox.got, deliver.counts["ops", "delivered"])
    assert [] == list((await store.waiting("ops", 10)).alerts)


async def test_another_gateway_delivers(store: Shared) -> None:
    inbox = Inbox()
    await store.add(a_new_alert("a"))
    store.is_sender = False

    assert None is await delivery(store, inbox).deliver(inbox)
    assert [] == inbox.got


async def test_a_gateway_that_loses_its_lease_stops(store: Shared) -> None:
    class Losing(Inbox):
        async def send(self, alert: Alert) -> Failure | None:
            store.is_sender = False
            return await super().send(alert)

    inbox = Losing()
    for id_ in "ab":
        await store.add(a_new_alert(id_))
    await delivery(store, inbox).deliver(inbox)

    assert ["a"] == inbox.got


async def test_alerts_that_were_removed_are_counted(store: Shared, caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox()
    for id_ in "abcde":
        await store.add(a_new_alert(id_))
    deliver = delivery(store, inbox)
    await deliver.deliver(inbox)

    assert (["c", "d", "e"], 2) == (inbox.got, deliver.counts["ops", "dropped"])
    assert "2 alerts were removed before ops accepted them" in caplog.text


async def test_an_alert_of_a_later_version_is_passed_over(store: Shared, file: SqliteFile) -> None:
    inbox = Inbox()

    def break_it(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO alert_log (body) VALUES (?)", (b'{"type": "unheard"}',))

    await file.run(break_it)
    await store.add(a_new_alert("a"))
    deliver = delivery(store, inbox)
    await deliver.deliver(inbox)

    assert (["a"], 1) == (inbox.got, deliver.counts["ops", "dropped"])


async def test_an_unavailable_store_is_asked_again_later(store: Shared) -> None:
    class Away(Shared):
        async def claim(self, sender: str, lease_s: float) -> bool:
            raise StoreUnavailable("The store does not answer")

    inbox = Inbox()

    assert None is await delivery(Away(SqliteFile(Path(":memory:")), wall_clock=Clock()), inbox).deliver(inbox)


async def test_a_receiver_that_is_down_delays_no_other(store: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged when it fails, and when it accepts again."""
    caplog.set_level(logging.WARNING)
    down, well = Inbox(answers=[DOWN] * 3), Inbox("finance")
    deliver = delivery(store, down, well)
    running = asyncio.ensure_future(deliver.run())
    await store.add(a_new_alert("a"))
    async with asyncio.timeout(60):
        while deliver.counts["ops", "delivered"] + deliver.counts["finance", "delivered"] < 2:
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.wait([running])

    assert (["a"], ["a"]) == (down.got, well.got)
    assert 3 == deliver.counts["ops", "failed"]
    assert ["alerts cannot be delivered to ops: HTTP 503", "alerts can be delivered to ops again"] == [
        each.getMessage() for each in caplog.records
    ]
