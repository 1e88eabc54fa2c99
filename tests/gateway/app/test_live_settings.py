"""The settings in force, changed as a whole or not at all."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app.live_settings import LiveSettings
from gateway.settings import Settings, SettingsError
from gateway.telemetry.reloads import Reloaded, Reloads
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.file import FileSource
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.worker_spec import ModelWorkers, WorkerSpec
from tests.gateway.examples import Clock
from tests.gateway.settings.examples import parsed
from tests.gateway.telemetry.test_reloads import samples

Workers = tuple[WorkerSpec, ...]


class ListedWorkers:
    """A discovery that finds what it is reported."""

    def __init__(self, *first: str) -> None:
        self.sets: asyncio.Queue[Workers | Exception] = asyncio.Queue()
        self.closed = False
        self.find(*first)

    def find(self, *ids: str) -> None:
        self.sets.put_nowait(tuple(WorkerSpec(url=f"http://{worker}:1", id=worker) for worker in ids))

    async def watch(self) -> AsyncGenerator[Workers, None]:
        try:
            while True:
                found = await self.sets.get()
                if isinstance(found, Exception):
                    raise found
                yield found
        finally:
            self.closed = True


@dataclass
class Stage:
    """Settings in force, and everything that was put in force, as ids of workers by model."""

    live: LiveSettings
    reloads: Reloads
    listed: dict[str, ListedWorkers]
    refuse: dict[str, Callable[[Sequence[str]], None]] = field(default_factory=dict)
    taken: list[tuple[Settings, Sequence[ModelWorkers]]] = field(default_factory=list)
    fault: Exception | None = None

    def take(self, settings: Settings, models: Sequence[ModelWorkers]) -> None:
        if self.fault is not None:
            raise self.fault
        self.taken.append((settings, models))

    @property
    def in_force(self) -> dict[str, list[str]]:
        return {model.name: [worker.id for worker in model.workers] for model in self.taken[-1][1]}

    async def reload(self, text: str) -> None:
        await self.live.reload(lambda: parsed(text))

    async def found(self, count: int) -> None:
        """Wait until settings were taken so often."""
        async with asyncio.timeout(60):
            while len(self.taken) < count:
                await asyncio.sleep(0)

    def counted(self, prefix: str) -> dict[str, float]:
        return {name: value for name, value in samples(self.reloads).items() if name.startswith(prefix)}


@asynccontextmanager
async def stage(text: str, **listed: ListedWorkers) -> AsyncIterator[Stage]:
    """*reported* by the name of the file."""

    def discover(source: WorkerSource, refuse: Callable[[Sequence[str]], None]) -> Discovery:
        assert isinstance(source.where, FileSource)
        there.refuse[source.where.path] = refuse
        return listed.setdefault(source.where.path, ListedWorkers())

    def take(settings: Settings, models: Sequence[ModelWorkers]) -> None:
        there.take(settings, models)

    reloads = Reloads(wall_clock=Clock(1000.0))
    live = LiveSettings(parsed(text), take=take, discover=discover, reloads=reloads)
    there = Stage(live, reloads, listed)
    async with asyncio.TaskGroup() as tasks:
        await live.find()
        running = tasks.create_task(live.run())
        await asyncio.sleep(0)
        yield there
        running.cancel()
    assert all(each.closed for each in listed.values())


def text(models: dict[str, Any], **groups: Any) -> str:
    """Models by name: a list of ids of workers, or the name of a file, or both."""

    def entry(name: str, *parts: list[str] | str) -> dict[str, Any]:
        of_model: dict[str, Any] = {"name": name}
        for part in parts:
            if isinstance(part, str):
                of_model["workers_file"] = part
            else:
                of_model["workers"] = [{"url": f"http://{worker}:1", "id": worker} for worker in part]
        return of_model

    entries = [entry(name, *(parts if isinstance(parts, tuple) else (parts,))) for name, parts in models.items()]
    dumped: str = yaml.safe_dump({"models": entries, **groups})
    return dumped


# ---- the configuration


async def test_a_good_configuration_is_put_in_force(caplog: pytest.LogCaptureFixture) -> None:
    """All of it in one step; one line says so, and so do the metrics."""
    caplog.set_level(logging.INFO)
    async with stage(text({"tiny": ["a"]})) as there:
        await there.reload(text({"tiny": ["a", "b"], "big": ["c"]}, health={"interval_s": 7}))

    assert {"tiny": ["a", "b"], "big": ["c"]} == there.in_force
    assert 7 == there.taken[-1][0].health.interval_s
    assert {'config_reloads_total{outcome="applied"}': 1.0} == there.counted("config_reloads")
    assert ["the configuration has been reloaded and is in effect"] == caplog.messages


async def test_one_without_a_difference_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is done, and nothing said but in the metrics."""
    caplog.set_level(logging.INFO)
    async with stage(text({"tiny": ["a"]})) as there:
        before = len(there.taken)
        await there.reload(text({"tiny": ["a"]}) + "# a comment\n")

    assert before == len(there.taken)
    assert {'config_reloads_total{outcome="unchanged"}': 1.0} == there.counted("config_reloads")
    assert [] == caplog.messages


async def test_a_bad_one_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """One line names fault and field; the metric stays at 0 until there is a good one."""
    async with stage(text({"tiny": ["a"]})) as there:
        before = len(there.taken)
        await there.reload(text({"tiny": ["b"]}, health={"interval_s": -1, "intervall_s": 1}))

        assert before == len(there.taken)
        assert [
            "the configuration was rejected; the previous one stays: health.interval_s is -1; "
            "the value must be greater than 0. "
            "health.intervall_s is not a setting; did you mean 'interval_s'."
        ] == caplog.messages
        assert {'config_reloads_total{outcome="refused"}': 1.0} == there.counted("config_reloads")
        assert {} == there.counted("config_last_reload")

        await there.reload(text({"tiny": ["b"]}))
        assert ({"tiny": ["b"]}, 1.0) == (there.in_force, *there.counted("config_last_reload").values())


async def test_what_no_one_foresaw_changes_nothing_either(caplog: pytest.LogCaptureFixture) -> None:
    """The gateway goes on with what it has, and the next reload may be better."""
    async with stage(text({"tiny": ["a"]})) as there:
        there.fault = ValueError("cannot be made")
        await there.reload(text({"tiny": ["b"]}))
        there.fault = None
        await there.reload(text({"tiny": ["b"]}))

    assert {"tiny": ["b"]} == there.in_force
    assert "the configuration was rejected; the previous one stays" == caplog.messages[0]
    assert {'config_reloads_total{outcome="applied"}': 1.0, 'config_reloads_total{outcome="refused"}': 1.0} == (
        there.counted("config_reloads")
    )


async def test_what_needs_a_restart_is_named_and_the_rest_applied(caplog: pytest.LogCaptureFixture) -> None:
    """Said once; the metric goes when the setting is as it was at the start."""
    async with stage(text({"tiny": ["a"]})) as there:
        for models in ({"tiny": ["b"]}, {"tiny": ["c"]}):
            await there.reload(text(models, server={"port": 9000}, logging={"level": "debug"}))

        assert {"tiny": ["c"]} == there.in_force
        assert 8080 == there.taken[-1][0].server.port
        assert ["these changed settings need a restart: server.port, logging.level"] == caplog.messages
        assert 2 == len(there.counted("config_needs_restart"))

        await there.reload(text({"tiny": ["c"]}))
        assert {} == there.counted("config_needs_restart")


async def test_anyone_who_reloads_learns_what_came_of_it() -> None:
    """With the faults, in sentences, and with what takes a restart."""
    async with stage(text({"tiny": ["a"]})) as there:
        good = await there.live.reload(lambda: parsed(text({"tiny": ["b"]}, server={"port": 9000})))
        same = await there.live.reload(lambda: parsed(text({"tiny": ["b"]})))
        bad = await there.live.reload(lambda: parsed(text({"tiny": ["b"]}, health={"interval_s": -1})))
        there.fault = ValueError("s3cret")
        broken = await there.live.reload(lambda: parsed(text({"tiny": ["c"]})))

    assert Reloaded("applied", needs_restart=("server.port",)) == good
    assert Reloaded("unchanged") == same
    assert Reloaded("refused", ("health.interval_s is -1; the value must be greater than 0.",)) == bad
    assert Reloaded("refused", ("The gateway's log contains the reason.",)) == broken


async def test_the_settings_in_force_can_be_read() -> None:
    async with stage(text({"tiny": ["a"]})) as there:
        await there.reload(text({"tiny": ["a"]}, health={"interval_s": 7}))

        assert 7 == there.live.configured.health.interval_s


# ---- what is found


async def test_what_is_found_at_first_is_in_force_before_anything_else() -> None:
    """Behind those that are listed."""
    async with stage(text({"tiny": (["a"], "f"), "big": ["c"]}), f=ListedWorkers("b")) as there:
        assert {"tiny": ["a", "b"], "big": ["c"]} == there.in_force


async def test_each_set_that_is_found_takes_the_place_of_the_one_before() -> None:
    """Also an empty one; a set that is the same changes nothing."""
    async with stage(text({"tiny": "f"}), f=ListedWorkers("a")) as there:
        sets = []
        for ids in (["a", "b"], [], ["c"]):
            there.listed["f"].find(*ids)
            await there.found(len(there.taken) + 1)
            sets.append(there.in_force["tiny"])
        there.listed["f"].find("c")
        there.listed["f"].find("d")
        await there.found(len(there.taken) + 1)

    assert [["a", "b"], [], ["c"]] == sets
    assert {
        'discovery_updates_total{model="tiny",outcome="applied"}': 4.0,
        'discovery_updates_total{model="tiny",outcome="unchanged"}': 1.0,
    } == there.counted("discovery_updates")


async def test_what_is_found_may_not_contradict_the_settings(caplog: pytest.LogCaptureFixture) -> None:
    """Then the set before stays; and it is taken as soon as the settings allow it."""
    async with stage(text({"tiny": (["a"], "f")}), f=ListedWorkers("b")) as there:
        there.listed["f"].find("a", "c")
        while not caplog.messages:
            await asyncio.sleep(0)

        assert {"tiny": ["a", "b"]} == there.in_force
        assert [
            "model tiny: the workers found were rejected; the old workers stay: "
            "models[0].workers_file[0].url is 'http://a:1', which is already used by "
            "models[0].workers[0].url."
        ] == caplog.messages

        await there.reload(text({"tiny": (["a"], "f"), "big": ["x"]}))
        assert {"tiny": ["a", "b"], "big": ["x"]} == there.in_force

        await there.reload(text({"tiny": "f"}))
        assert {"tiny": ["a", "c"]} == there.in_force


async def test_a_worker_of_two_models_may_move() -> None:
    """The first that finds it contradicts what the second has; when both have found it, both are taken."""

    def at(url: str) -> Workers:
        return (WorkerSpec(url=url, id="a"),)

    tiny, big = ListedWorkers("a"), ListedWorkers("a")
    async with stage(text({"tiny": "f", "big": "g"}), f=tiny, g=big) as there:
        tiny.sets.put_nowait(at("http://new:1"))
        while not [name for name in there.counted("discovery_updates") if "refused" in name]:
            await asyncio.sleep(0)
        big.sets.put_nowait(at("http://new:1"))
        await there.found(2)

        assert [at("http://new:1"), at("http://new:1")] == [model.workers for model in there.taken[-1][1]]
        tiny.find("b")
        await there.found(3)
        assert {"tiny": ["b"], "big": ["a"]} == there.in_force


async def test_several_sources_of_one_model_are_one_set() -> None:
    """Each changes its own part; of two that find the same address the first counts."""
    model = {"name": "tiny", "workers_file": "f", "dns": {"name": "d", "port": 1}}
    sources = {"workers_file": ListedWorkers("a"), "dns": ListedWorkers("a", "b")}
    taken: list[Sequence[ModelWorkers]] = []
    reloads = Reloads(wall_clock=Clock(1000.0))
    live = LiveSettings(
        parsed(yaml.safe_dump({"models": [model]})),
        take=lambda _, models: taken.append(models),
        discover=lambda source, _: sources[source.kind],
        reloads=reloads,
    )
    await live.find()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(live.run())
        await asyncio.sleep(0)
        for kind, ids in (("dns", ["c"]), ("workers_file", [])):
            sources[kind].find(*ids)
            count = len(taken)
            async with asyncio.timeout(60):
                while len(taken) == count:
                    await asyncio.sleep(0)
        running.cancel()

    assert [["a", "b"], ["a", "c"], ["c"]] == [[worker.id for worker in each[0].workers] for each in taken]


async def test_a_contradiction_at_the_start_is_a_start_without_what_was_found(caplog: pytest.LogCaptureFixture) -> None:
    """Other models can be served all the same."""
    async with stage(text({"tiny": (["a"], "f")}), f=ListedWorkers("a")) as there:
        assert [] == there.taken
        there.listed["f"].find("b")
        await there.found(1)

    assert {"tiny": ["a", "b"]} == there.in_force
    assert 1 == len(caplog.messages)


async def test_a_contradiction_between_two_files_at_the_start_costs_the_second_one_only() -> None:
    """The first one is taken, and a third that has nothing to do with it."""
    clash = ListedWorkers()
    clash.sets.get_nowait()
    clash.sets.put_nowait((WorkerSpec(url="http://elsewhere:1", id="a"),))
    async with stage(
        text({"one": "f", "two": "g", "three": "h"}), f=ListedWorkers("a"), g=clash, h=ListedWorkers("c")
    ) as there:
        assert {"one": ["a"], "two": [], "three": ["c"]} == there.in_force
        assert ['discovery_updates_total{model="two",outcome="refused"}'] == [
            name for name in there.counted("discovery_updates") if "refused" in name
        ]


async def test_a_reload_keeps_what_was_found() -> None:
    async with stage(
        text({"tiny": "f", "old": "g"}), f=ListedWorkers("a"), g=ListedWorkers("b"), h=ListedWorkers("c")
    ) as there:
        await there.reload(text({"tiny": "f", "new": "h"}))

        assert {"tiny": ["a"], "new": ["c"]} == there.in_force
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [False, True, False] == [there.listed[file].closed for file in "fgh"]

        there.listed["h"].find("d")
        await there.found(len(there.taken) + 1)
        assert {"tiny": ["a"], "new": ["d"]} == there.in_force


async def test_a_reload_that_contradicts_what_is_found_is_refused() -> None:
    """What it would have followed is not followed, what was followed still is."""
    async with stage(text({"tiny": "f"}), f=ListedWorkers("a"), g=ListedWorkers("b")) as there:
        await there.reload(text({"tiny": (["a"], "f"), "big": "g"}))

        assert {"tiny": ["a"]} == there.in_force
        assert {'config_reloads_total{outcome="refused"}': 1.0} == there.counted("config_reloads")
        assert there.listed["g"].closed

        there.listed["f"].find("z")
        await there.found(len(there.taken) + 1)
        assert {"tiny": ["z"]} == there.in_force


async def test_a_reload_that_names_a_bad_file_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its workers would be gone otherwise; a file that is not there yet may come."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("- urll: x")
    async with stage(text({"tiny": ["a"]}), **{str(tmp_path / "none.yaml"): ListedWorkers()}) as there:
        await there.reload(text({"tiny": str(bad)}))
        assert 0 == sum(there.counted("config_last_reload").values())

        await there.reload(text({"tiny": str(tmp_path / "none.yaml")}))
        assert {"tiny": []} == there.in_force

    assert "workers[0].urll is not a setting" in caplog.messages[0]


async def test_what_cannot_be_taken_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The discovery says why, the log says of which model."""
    async with stage(text({"tiny": "f"}), f=ListedWorkers("a")) as there:
        there.refuse["f"](["f is not there."])

        assert {'discovery_updates_total{model="tiny",outcome="refused"}': 1.0} == {
            name: value for name, value in there.counted("discovery_updates").items() if "applied" not in name
        }
        assert {} == there.counted("discovery_last")
    assert ["model tiny: the workers found were rejected; the old workers stay: f is not there."] == caplog.messages


async def test_a_discovery_that_fails_ends_no_one_else(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(text({"tiny": "f", "big": "g"}), f=ListedWorkers("a"), g=ListedWorkers("b")) as there:
        there.listed["f"].sets.put_nowait(RuntimeError("nobody foresaw it"))
        there.listed["g"].find("c")
        await there.found(len(there.taken) + 1)
        while not caplog.messages:
            await asyncio.sleep(0)

    assert {"tiny": ["a"], "big": ["c"]} == there.in_force
    assert ["worker discovery for model tiny has stopped"] == caplog.messages


async def test_a_set_that_cannot_be_put_in_force_changes_nothing() -> None:
    """The one before stays."""
    async with stage(text({"tiny": "f"}), f=ListedWorkers("a")) as there:
        there.fault = SettingsError(["cannot be made."])
        there.listed["f"].find("b")
        while not [name for name in there.counted("discovery_updates") if "refused" in name]:
            await asyncio.sleep(0)
        there.fault = None
        there.listed["f"].find("c")
        await there.found(len(there.taken) + 1)

    assert {"tiny": ["c"]} == there.in_force


def added(*workers: AddedWorker) -> dict[str, AddedWorker]:
    return {worker.name: worker for worker in workers}


B = AddedWorker("m", "http://b:1", "b")


async def test_an_added_worker_serves_beside_the_others() -> None:
    """It outlives a reload, and gives way to the same one where that is found or listed."""
    async with stage("models: [{name: m, workers_file: f}]", f=ListedWorkers("a")) as there:
        there.live.have_added(added(B))
        first = there.in_force
        await there.reload("models: [{name: m, workers_file: f, aliases: [x]}]")
        reloaded = there.in_force
        await there.reload("models: [{name: m, workers_file: f, workers: [{url: 'http://b:1', id: c}]}]")
        listed = there.in_force
        await there.reload("models: [{name: m, workers_file: f}]")
        listed_no_more = there.in_force
        there.live.have_added({})
        removed = there.in_force

    assert [{"m": ["a", "b"]}] * 3 == [first, reloaded, listed_no_more]
    assert [{"m": ["c", "a"]}, {"m": ["a"]}] == [listed, removed]


async def test_workers_that_were_added_before_the_start_serve_from_the_beginning() -> None:
    """The store is read before anything is searched for, and then all are put in force in one step."""
    taken: list[Sequence[ModelWorkers]] = []
    settings = parsed("models: [{name: m, workers: [{url: 'http://a:1', id: a}]}]")
    reloads = Reloads(wall_clock=Clock(1000.0))
    live = LiveSettings(
        settings, take=lambda _, models: taken.append(models), discover=lambda *_: ListedWorkers(), reloads=reloads
    )
    live.have_added(added(B))
    assert [] == taken
    await live.find()

    assert [["a", "b"]] == [[worker.id for worker in each[0].workers] for each in taken]


async def test_an_added_worker_that_cannot_be_in_use_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """One line says why; what is found meanwhile is taken all the same."""
    gone, twin = AddedWorker("gone", "http://c:1", "c"), AddedWorker("m", "http://d:1", "a")
    async with stage("models: [{name: m, workers_file: f}]", f=ListedWorkers("a")) as there:
        there.live.have_added(added(gone, twin))
        there.listed["f"].find("a", "e")
        await there.found(len(there.taken) + 1)
        assert {"m": ["a", "e"]} == there.in_force
        there.listed["f"].find("e")
        await there.found(len(there.taken) + 1)
        assert {"m": ["e", "a"]} == there.in_force

    assert [
        "worker a, which was added through the admin API, is not in use: the id 'a' is already used by another worker",
        "worker c, which was added through the admin API, is not in use: the model 'gone' is not configured",
    ] == [record.getMessage() for record in caplog.records if "admin API" in record.getMessage()]


async def test_added_workers_that_cannot_be_put_in_force_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with stage("models: [{name: m, workers: [{url: 'http://a:1', id: a}]}]") as there:
        there.fault = ValueError("cannot be made")
        there.live.have_added(added(B))
        before = there.in_force
        there.fault = None
        await there.reload("models: [{name: m, workers: [{url: 'http://a:1', id: a}], aliases: [x]}]")

        assert [{"m": ["a"]}, {"m": ["a", "b"]}] == [before, there.in_force]
    assert "were rejected, and nothing has changed" in caplog.text
