"""A worker for each who stands behind an address, as the address tells."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.ranks.census import RARELY, Census
from gateway.ranks.population import Instance, Population
from gateway.settings import DynamoSettings, Settings, SettingsError
from tests.gateway.settings.examples import parsed, with_model


class Tells:
    """An inquirer that answers what a test says, by url."""

    def __init__(self, **told: Population | None) -> None:
        self.told = {f"http://{host}:1": population for host, population in told.items()}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.models: list[str] = []

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSettings | None, model: str
    ) -> Population | None:
        self.asked.append((url, headers))
        self.models.append(model)
        return self.told.get(url)


class Stage:
    """A census, and the ids of the workers in force."""

    def __init__(self, inquirer: Tells) -> None:
        self.taken: list[Settings] = []
        self.fault: Exception | None = None
        self.census = Census(self._take, inquirer, interval_s=0.01)

    def _take(self, settings: Settings) -> None:
        if self.fault is not None:
            raise self.fault
        self.taken.append(settings)

    @property
    def in_force(self) -> list[str]:
        return [worker.id for worker in self.taken[-1].models[0].workers]


def listing(*workers: dict[str, Any]) -> Settings:
    return parsed(with_model(workers=[{"url": f"http://{each['id']}:1", **each} for each in workers]))


def instances(*ids: str) -> Population:
    return Population(instances=tuple(map(Instance, ids)))


async def test_settings_pass_through_and_are_filled_in_when_the_addresses_have_told() -> None:
    tells = Tells(a=Population(ranks=2), d=instances("7", "8"))
    stage = Stage(tells)
    stage.census.take(listing({"id": "a", "ranks": 0, "api_key": "sk"}, {"id": "b"}, {"id": "d", "dynamo": {}}))

    assert ["a", "b"] == stage.in_force
    await stage.census.ask()
    assert ["a#0", "a#1", "b", "d#7", "d#8"] == stage.in_force
    assert [("http://a:1", {"authorization": "Bearer sk"}), ("http://d:1", {})] == tells.asked
    assert ["tiny", "tiny"] == tells.models


async def test_what_was_told_holds_for_the_next_settings_too() -> None:
    """Without a question."""
    stage = Stage(Tells(a=Population(ranks=2)))
    stage.census.take(listing({"id": "a", "ranks": 0}))
    await stage.census.ask()
    stage.census.take(listing({"id": "a", "ranks": 0}, {"id": "b"}))

    assert ["a#0", "a#1", "b"] == stage.in_force


async def test_silence_changes_nothing() -> None:
    """Neither does the same answer again."""
    tells = Tells(d=instances("7"))
    stage = Stage(tells)
    stage.census.take(listing({"id": "d", "dynamo": {}}))
    for _ in range(2):
        await stage.census.ask()
    tells.told.clear()
    await stage.census.ask()

    assert (["d#7"], 2) == (stage.in_force, len(stage.taken))


async def test_a_frontend_is_asked_each_time_and_an_engine_that_has_told_rarely() -> None:
    tells = Tells(a=Population(ranks=2), d=instances())
    stage = Stage(tells)
    stage.census.take(listing({"id": "a", "ranks": 0}, {"id": "d", "dynamo": {}}))
    for _ in range(RARELY + 2):
        await stage.census.ask()

    assert (2, RARELY + 2) == tuple(sum(url == f"http://{host}:1" for url, _ in tells.asked) for host in ("a", "d"))


async def test_who_cannot_be_taken_is_told_of_and_the_former_ones_stay(caplog: pytest.LogCaptureFixture) -> None:
    """By whoever refuses it."""
    tells = Tells(d=instances("7"))
    stage = Stage(tells)
    stage.census.take(listing({"id": "d", "dynamo": {}}))
    for fault in (SettingsError(["no."]), ValueError("no")):
        tells.told["http://d:1"] = instances(type(fault).__name__)
        stage.fault = fault
        await stage.census.ask()

    assert [] == stage.in_force
    assert 2 == sum("not taken" in record.message for record in caplog.records)


async def test_settings_that_are_refused_are_not_remembered() -> None:
    stage = Stage(Tells(d=instances("7")))
    stage.census.take(listing({"id": "d", "dynamo": {}}))
    stage.fault = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        stage.census.take(listing({"id": "b"}))
    stage.fault = None
    await stage.census.ask()

    assert ["d#7"] == stage.in_force


async def test_while_it_runs_who_is_new_is_asked() -> None:
    stage = Stage(Tells(d=instances("7")))
    running = asyncio.ensure_future(stage.census.run())
    stage.census.take(listing({"id": "d", "dynamo": {}}))
    async with asyncio.timeout(10):
        while stage.in_force != ["d#7"]:
            await asyncio.sleep(0.01)
    running.cancel()

    assert ["d#7"] == stage.in_force


async def test_what_one_question_brings_about_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is asked again."""

    class Fails(Tells):
        async def ask(
            self, url: str, headers: Mapping[str, str], dynamo: DynamoSettings | None, model: str
        ) -> Population | None:
            await super().ask(url, headers, dynamo, model)
            if len(self.asked) == 1:
                raise RuntimeError("unforeseen")
            return instances("7")

    stage = Stage(Fails())
    stage.census.take(listing({"id": "d", "dynamo": {}}))
    running = asyncio.ensure_future(stage.census.run())
    async with asyncio.timeout(10):
        while stage.in_force != ["d#7"]:
            await asyncio.sleep(0.01)
    running.cancel()

    assert ["asking who stands behind http://d:1 failed"] == [record.message for record in caplog.records]
