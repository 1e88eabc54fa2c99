"""A worker for each who stands behind an address, as the address reports."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.workers.rank_discovery.rank_discovery import RARELY, RankDiscovery
from gateway.workers.shared_address.address_report import AddressReport, Instance
from gateway.workers.worker_spec import DynamoSpec, ModelWorkers, WorkersError
from tests.gateway.settings.examples import with_model, with_workers


class Reports:
    """An probe that answers what a test says, by url."""

    def __init__(self, **reported: AddressReport | None) -> None:
        self.reports = {f"http://{host}:1": report for host, report in reported.items()}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.models: list[str] = []

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSpec | None, model: str
    ) -> AddressReport | None:
        self.asked.append((url, headers))
        self.models.append(model)
        return self.reports.get(url)


class Stage:
    """A rank_discovery, and the ids of the workers in force."""

    def __init__(self, probe: Reports) -> None:
        self.taken: list[Sequence[ModelWorkers]] = []
        self.fault: Exception | None = None
        self.rank_discovery = RankDiscovery(probe, interval_s=0.01)

    def take(self, models: Sequence[ModelWorkers]) -> None:
        self.rank_discovery.take(models, self._put)

    def _put(self, models: Sequence[ModelWorkers]) -> None:
        if self.fault is not None:
            raise self.fault
        self.taken.append(models)

    @property
    def in_force(self) -> list[str]:
        return [worker.id for worker in self.taken[-1][0].workers]


def listing(*workers: dict[str, Any]) -> tuple[ModelWorkers, ...]:
    return with_workers(with_model(workers=[{"url": f"http://{each['id']}:1", **each} for each in workers]))


def instances(*ids: str) -> AddressReport:
    return AddressReport(instances=tuple(map(Instance, ids)))


async def test_settings_pass_through_and_are_filled_in_when_the_addresses_have_reported() -> None:
    reports = Reports(a=AddressReport(ranks=2), d=instances("7", "8"))
    stage = Stage(reports)
    stage.take(listing({"id": "a", "ranks": 0, "api_key": "sk"}, {"id": "b"}, {"id": "d", "dynamo": {}}))

    assert ["a", "b"] == stage.in_force
    await stage.rank_discovery.ask()
    assert ["a#0", "a#1", "b", "d#7", "d#8"] == stage.in_force
    assert [("http://a:1", {"authorization": "Bearer sk"}), ("http://d:1", {})] == reports.asked
    assert ["tiny", "tiny"] == reports.models


async def test_what_was_reported_holds_for_the_next_settings_too() -> None:
    """Without a question."""
    stage = Stage(Reports(a=AddressReport(ranks=2)))
    stage.take(listing({"id": "a", "ranks": 0}))
    await stage.rank_discovery.ask()
    stage.take(listing({"id": "a", "ranks": 0}, {"id": "b"}))

    assert ["a#0", "a#1", "b"] == stage.in_force


async def test_silence_changes_nothing() -> None:
    """Neither does the same answer again."""
    reports = Reports(d=instances("7"))
    stage = Stage(reports)
    stage.take(listing({"id": "d", "dynamo": {}}))
    for _ in range(2):
        await stage.rank_discovery.ask()
    reports.reports.clear()
    await stage.rank_discovery.ask()

    assert (["d#7"], 2) == (stage.in_force, len(stage.taken))


async def test_a_frontend_is_asked_each_time_and_an_engine_that_has_reported_rarely() -> None:
    reports = Reports(a=AddressReport(ranks=2), d=instances())
    stage = Stage(reports)
    stage.take(listing({"id": "a", "ranks": 0}, {"id": "d", "dynamo": {}}))
    for _ in range(RARELY + 2):
        await stage.rank_discovery.ask()

    assert (2, RARELY + 2) == tuple(sum(url == f"http://{host}:1" for url, _ in reports.asked) for host in ("a", "d"))


async def test_who_cannot_be_taken_is_reported_of_and_the_former_ones_stay(caplog: pytest.LogCaptureFixture) -> None:
    """The reason is logged."""
    reports = Reports(d=instances("7"))
    stage = Stage(reports)
    stage.take(listing({"id": "d", "dynamo": {}}))
    for fault in (WorkersError(["no."]), ValueError("no")):
        reports.reports["http://d:1"] = instances(type(fault).__name__)
        stage.fault = fault
        await stage.rank_discovery.ask()

    assert [] == stage.in_force
    assert 2 == sum("were rejected" in record.message for record in caplog.records)


async def test_settings_that_are_refused_are_not_remembered() -> None:
    stage = Stage(Reports(d=instances("7")))
    stage.take(listing({"id": "d", "dynamo": {}}))
    stage.fault = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        stage.take(listing({"id": "b"}))
    stage.fault = None
    await stage.rank_discovery.ask()

    assert ["d#7"] == stage.in_force


async def test_while_it_runs_who_is_new_is_asked() -> None:
    stage = Stage(Reports(d=instances("7")))
    running = asyncio.ensure_future(stage.rank_discovery.run())
    stage.take(listing({"id": "d", "dynamo": {}}))
    async with asyncio.timeout(60):
        while stage.in_force != ["d#7"]:
            await asyncio.sleep(0.01)
    running.cancel()

    assert ["d#7"] == stage.in_force


async def test_what_one_question_brings_about_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is asked again."""

    class Fails(Reports):
        async def ask(
            self, url: str, headers: Mapping[str, str], dynamo: DynamoSpec | None, model: str
        ) -> AddressReport | None:
            await super().ask(url, headers, dynamo, model)
            if len(self.asked) == 1:
                raise RuntimeError("unforeseen")
            return instances("7")

    stage = Stage(Fails())
    stage.take(listing({"id": "d", "dynamo": {}}))
    running = asyncio.ensure_future(stage.rank_discovery.run())
    async with asyncio.timeout(60):
        while stage.in_force != ["d#7"]:
            await asyncio.sleep(0.01)
    running.cancel()

    assert ["rank discovery at http://d:1 failed"] == [record.message for record in caplog.records]
