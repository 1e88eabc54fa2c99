"""Events about batches that have ended: their form, and when they are stored."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from openai.types.webhooks import (
    BatchCancelledWebhookEvent,
    BatchCompletedWebhookEvent,
    BatchExpiredWebhookEvent,
    BatchFailedWebhookEvent,
)

from gateway.batch import runner
from gateway.batch.batch import BatchInfo, Status, TeamBatch, batch_in, new_batch
from gateway.batch.events import BatchEvent, BatchEvents, event_of, payload
from gateway.batch.records import Record
from gateway.batch.sqlite_records import SqliteRecords
from gateway.protocol.errors import StoreUnavailable
from gateway.storage.sqlite_file import MEMORY, SqliteFile
from gateway.telemetry.alert_delivery.webhook import secret_bytes, signed_headers
from gateway.tenancy.alerts.alert_store import Added, NewEntry
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from tests.alert_receiver import SECRET
from tests.gateway.batch.examples import NOW
from tests.gateway.batch.test_runner import Running, _App, running
from tests.gateway.examples import Clock

ENDED_AT = int(NOW) + 7


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_S", 0.01)
    monkeypatch.setattr(runner, "AGAIN_S", 0.01)


def an_ended_batch(status: Status, batch_id: str = "batch_1", team: str = "blue") -> TeamBatch:
    info = BatchInfo("/v1/embeddings", "file-1", "ci", int(NOW), int(NOW) + 100, status=status)
    times = {"cancelling_at": int(NOW) + 1, f"{status}_at": ENDED_AT}
    return new_batch(batch_id, team, msgspec.structs.replace(info, **times))


def signed(event: BatchEvent, *, secret: str = SECRET) -> tuple[bytes, Mapping[str, str]]:
    body = payload(event)
    return body, signed_headers(secret_bytes(secret), event.id, int(time.time()), body)


async def stored(store: SqliteAlerts, receiver: str = "jobs") -> list[BatchEvent]:
    found = (await store.waiting(receiver, 100)).alerts
    return [msgspec.json.decode(each.body, type=BatchEvent) for each in found]


@pytest.mark.parametrize(
    ("status", "type_"),
    [
        ("completed", BatchCompletedWebhookEvent),
        ("failed", BatchFailedWebhookEvent),
        ("expired", BatchExpiredWebhookEvent),
        ("cancelled", BatchCancelledWebhookEvent),
    ],
)
def test_the_client_of_openai_verifies_and_parses_each_event(status: Status, type_: type) -> None:
    """The event has the fields of the client's types, and no others."""
    event = event_of(an_ended_batch(status))
    body, headers = signed(event)
    with OpenAI(api_key="none", webhook_secret=SECRET) as client:
        found = client.webhooks.unwrap(body, dict(headers))

    assert type_ is type(found)
    assert {
        "id": event.id,
        "created_at": ENDED_AT,
        "data": {"id": "batch_1"},
        "type": f"batch.{status}",
        "object": "event",
    } == found.model_dump()


def test_the_client_of_openai_refuses_an_event_with_another_signature() -> None:
    body, headers = signed(event_of(an_ended_batch("completed")), secret="whsec_" + "A" * 32)
    with (
        OpenAI(api_key="none", webhook_secret=SECRET) as client,
        pytest.raises(InvalidWebhookSignatureError),
    ):
        client.webhooks.unwrap(body, dict(headers))


def test_the_id_of_an_event_depends_on_the_batch_and_its_last_state() -> None:
    batches = [an_ended_batch("completed"), an_ended_batch("expired"), an_ended_batch("completed", "batch_2")]
    ids = {event_of(each).id for each in (*batches, an_ended_batch("completed"))}

    assert 3 == len(ids)
    assert all(each.startswith("evt_") for each in ids)


def test_receivers_get_the_events_of_their_teams() -> None:
    store = SqliteAlerts(SqliteFile(MEMORY), wall_clock=Clock(NOW), name="batch_event")
    some = BatchEvents(store, {"jobs": {"blue"}, "none": ()}, wall_clock=Clock(NOW))
    every = BatchEvents(store, {"jobs": {"blue"}, "ops": None}, wall_clock=Clock(NOW))
    red = event_of(an_ended_batch("completed", team="red"))

    assert (True, False, True) == (some.are_wanted("blue"), some.are_wanted("red"), every.are_wanted("red"))
    assert (False, True) == (every.is_wanted_by("jobs", red), every.is_wanted_by("ops", red))
    assert not BatchEvents(store, {}, wall_clock=Clock(NOW)).are_wanted("blue")


async def test_a_receiver_is_added_when_the_store_answers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It then gets the events that are stored later."""

    class Away(SqliteAlerts):
        faults = 2

        async def begin(self, receivers: object) -> None:
            self.faults -= 1
            if self.faults >= 0:
                raise StoreUnavailable("The store does not answer")
            await super().begin(["jobs"])

    monkeypatch.setattr("gateway.batch.events.AGAIN_S", 0.001)
    file = SqliteFile(MEMORY)
    store = Away(file, wall_clock=Clock(NOW), name="batch_event")
    events = BatchEvents(store, {"jobs": None}, wall_clock=Clock(NOW))
    await events.run()
    await events.add(an_ended_batch("failed"))

    assert ["batch.failed"] == [each.type for each in await stored(store)]
    await file.aclose()


async def announced(gateway: Running, batch_id: str) -> TeamBatch:
    """Wait until the event of the end of a batch is stored, and nothing of it is due."""
    async with asyncio.timeout(50):
        while (batch := await gateway.ended(batch_id)).info.event_due:
            await asyncio.sleep(0.005)
    return batch


async def test_the_end_of_a_batch_is_stored_once(tmp_path: Path) -> None:
    """Although three gateways run the batches. The batches stay as long as those without webhooks."""
    async with running(tmp_path, gateways=3, webhooks={"jobs": None}) as gateway:
        completed = await announced(gateway, await gateway.create("a"))
        failed = await announced(gateway, await gateway.create("a", model="huge"))
        found = await stored(gateway.event_store)

    assert [("blue", completed.id, "batch.completed"), ("blue", failed.id, "batch.failed")] == [
        (each.team, each.batch, each.type) for each in found
    ]
    assert [NOW + 1000] * 2 == [completed.record.due_at, failed.record.due_at]
    assert {"completed": 1, "failed": 1} == +gateway.counters.ended


async def test_a_batch_that_is_cancelled_or_expires_has_an_event(tmp_path: Path) -> None:
    async with running(tmp_path, _App(b=[503] * 10_000), webhooks={"jobs": None}) as gateway:
        gateway.app.may_answer.clear()
        cancelled = await gateway.create("a")
        await gateway.reached(cancelled, "in_progress")
        await gateway.stage.batches.cancel("blue", cancelled)
        gateway.app.may_answer.set()
        await announced(gateway, cancelled)
        expired = await gateway.create("b")
        await gateway.reached(expired, "in_progress")
        gateway.clock.now = NOW + 86_400
        async with asyncio.timeout(50):
            while len(found := await stored(gateway.event_store)) < 2:
                await asyncio.sleep(0.005)

    assert [(cancelled, "batch.cancelled", int(NOW)), (expired, "batch.expired", int(NOW) + 86_400)] == [
        (each.batch, each.type, each.created_at) for each in found
    ]


async def test_batches_of_teams_without_webhooks_cause_no_events(tmp_path: Path) -> None:
    async with running(tmp_path, webhooks={"jobs": {"red"}}) as gateway:
        batch = await gateway.ended(await gateway.create("a"))
        await gateway.events.run()

        assert ([], False) == (await stored(gateway.event_store), batch.info.event_due)


async def test_an_event_whose_gateway_was_killed_before_it_was_stored_is_stored_later(tmp_path: Path) -> None:
    """The batch is due again, also for a gateway without webhooks, as while new settings are rolled out."""

    class Away(SqliteAlerts):
        async def add(self, alert: NewEntry) -> Added:
            raise StoreUnavailable("The gateway was killed")

    async with running(tmp_path, webhooks={"jobs": None}) as gateway:
        gateway.events._store = Away(gateway.stage.file, wall_clock=gateway.clock, name="batch_event")
        batch = await gateway.ended(await gateway.create("a"))
        await gateway.event_store.begin(["jobs"])
        assert (True, NOW, []) == (batch.info.event_due, batch.record.due_at, await stored(gateway.event_store))

        gateway.events = BatchEvents(gateway.event_store, {}, wall_clock=gateway.clock)
        other = asyncio.ensure_future(gateway.another().run())
        await announced(gateway, batch.id)
        other.cancel()
        await asyncio.wait([other])
        found = await stored(gateway.event_store)

    assert [("batch.completed", batch.id)] == [(each.type, each.batch) for each in found]


async def test_an_event_whose_gateway_was_killed_after_it_was_stored_is_one_event(tmp_path: Path) -> None:
    """The next gateway stores it again, with the same id."""

    class Killed(SqliteRecords):
        kills = 2

        async def put(self, record: Record) -> bool:
            info = batch_in(record).info
            if info.status == "completed" and not info.event_due and self.kills:
                self.kills -= 1
                raise StoreUnavailable("The gateway was killed")
            return await super().put(record)

    async with running(tmp_path, _App(), webhooks={"jobs": None}) as gateway:
        killed = Killed(gateway.stage.file, "batch")
        gateway.runner._store = killed
        batch = await announced(gateway, await gateway.create("a"))
        found = await stored(gateway.event_store)

    assert 0 == killed.kills
    assert [event_of(batch)] == found
