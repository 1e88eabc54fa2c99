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

from gateway.discovery.discovery import Discovery
from gateway.discovery.source import Source
from gateway.live_settings import LiveSettings
from gateway.reloads import Reloaded, Reloads
from gateway.settings import Settings, SettingsError, WorkerSettings
from gateway.teams.added_worker import AddedWorker
from tests.gateway.examples import Clock
from tests.gateway.settings.examples import parsed
from tests.gateway.test_reloads import samples

Workers = tuple[WorkerSettings, ...]


class Told:
    """A discovery that finds what it is told."""

    def __init__(self, *first: str) -> None:
        self.sets: asyncio.Queue[Workers | Exception] = asyncio.Queue()
        self.closed = False
        self.find(*first)

    def find(self, *ids: str) -> None:
        self.sets.put_nowait(tuple(WorkerSettings(url=f"http://{worker}:1", id=worker) for worker in ids))

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
    told: dict[str, Told]
    refuse: dict[str, Callable[[Sequence[str]], None]] = field(default_factory=dict)
    taken: list[Settings] = field(default_factory=list)
    fault: Exception | None = None

    def take(self, settings: Settings) -> None:
        if self.fault is not None:
            raise self.fault
        self.taken.append(settings)

    @property
    def in_force(self) -> dict[str, list[str]]:
        return {model.name: [worker.id for worker in model.workers] for model in self.taken[-1].models}

    async def reload(self, text: str) -> None:
        await self.live.reload(lambda: parsed(text))

    async def found(self, count: int) -> None:
        """Wait until settings were taken so often."""
        async with asyncio.timeout(30):
            while len(self.taken) < count:
                await asyncio.sleep(0)

    def counted(self, prefix: str) -> dict[str, float]:
        return {name: value for name, value in samples(self.reloads).items() if name.startswith(prefix)}


@asynccontextmanager
async def stage(text: str, **told: Told) -> AsyncIterator[Stage]:
    """*told* by the name of the file."""

    def discover(source: Source, refuse: Callable[[Sequence[str]], None]) -> Discovery:
        assert isinstance(source.where, str)
        there.refuse[source.where] = refuse
        return told.setdefault(source.where, Told())

    def take(settings: Settings) -> None:
        there.take(settings)

    reloads = Reloads(wall_clock=Clock(1000.0))
    live = LiveSettings(parsed(text), take=take, discover=discover, reloads=reloads)
    there = Stage(live, reloads, told)
    async with asyncio.TaskGroup() as tasks:
        await live.find()
        running = tasks.create_task(live.run())
        await asyncio.sleep(0)
        yield there
        running.cancel()
    assert all(each.closed for each in told.values())


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
    assert 7 == there.taken[-1].health.interval_s
    assert {'config_reloads_total{outcome="applied"}': 1.0} == there.counted("config_reloads")
    assert ["the configuration has been read again and is in force"] == caplog.messages


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
            "the configuration is not taken, nothing has changed: health.interval_s is -1; it must be greater than 0. "
            "health.intervall_s is not a setting; did you mean 'interval_s'."
        ] == caplog.messages
        assert {'config_reloads_total{outcome="refused"}': 1.0} == there.counted("config_reloads")
        assert {} == there.counted("config_last_reload")

        await there.reload(text({"tiny": ["b"]}))
        assert ({"tiny": ["b"]}, 1.0) == (there.in_force, *there.counted("config_last_reload").values())


async def test_what_nobody_foresaw_changes_nothing_either(caplog: pytest.LogCaptureFixture) -> None:
    """The gateway goes on with what it has, and the next reload may be better."""
    async with stage(text({"tiny": ["a"]})) as there:
        there.fault = ValueError("cannot be made")
        await there.reload(text({"tiny": ["b"]}))
        there.fault = None
        await there.reload(text({"tiny": ["b"]}))

    assert {"tiny": ["b"]} == there.in_force
    assert "the configuration is not taken, nothing has changed" == caplog.messages[0]
    assert {'config_reloads_total{outcome="applied"}': 1.0, 'config_reloads_total{outcome="refused"}': 1.0} == (
        there.counted("config_reloads")
    )


async def test_what_needs_a_restart_is_named_and_the_rest_applied(caplog: pytest.LogCaptureFixture) -> None:
    """Said once; the metric goes when the setting is as it was at the start."""
    async with stage(text({"tiny": ["a"]})) as there:
        for models in ({"tiny": ["b"]}, {"tiny": ["c"]}):
            await there.reload(text(models, server={"port": 9000}, logging={"level": "debug"}))

        assert {"tiny": ["c"]} == there.in_force
        assert 8080 == there.taken[-1].server.port
        assert ["what was changed here needs a restart: server.port, logging.level"] == caplog.messages
        assert 2 == len(there.counted("config_needs_restart"))

        await there.reload(text({"tiny": ["c"]}))
        assert {} == there.counted("config_needs_restart")


async def test_whoever_reloads_is_told_what_came_of_it() -> None:
    """With the faults, in sentences, and with what takes a restart."""
    async with stage(text({"tiny": ["a"]})) as there:
        good = await there.live.reload(lambda: parsed(text({"tiny": ["b"]}, server={"port": 9000})))
        same = await there.live.reload(lambda: parsed(text({"tiny": ["b"]})))
        bad = await there.live.reload(lambda: parsed(text({"tiny": ["b"]}, health={"interval_s": -1})))
        there.fault = ValueError("s3cret")
        broken = await there.live.reload(lambda: parsed(text({"tiny": ["c"]})))

    assert Reloaded("applied", needs_restart=("server.port",)) == good
    assert Reloaded("unchanged") == same
    assert Reloaded("refused", ("health.interval_s is -1; it must be greater than 0.",)) == bad
    assert Reloaded("refused", ("The log says why.",)) == broken


async def test_the_settings_in_force_can_be_read() -> None:
    async with stage(text({"tiny": ["a"]})) as there:
        await there.reload(text({"tiny": ["a"]}, health={"interval_s": 7}))

        assert 7 == there.live.configured.health.interval_s


# ---- what is found


async def test_what_is_found_at_first_is_in_force_before_anything_else() -> None:
    """Behind those that are listed."""
    async with stage(text({"tiny": (["a"], "f"), "big": ["c"]}), f=Told("b")) as there:
        assert {"tiny": ["a", "b"], "big": ["c"]} == there.in_force


async def test_each_set_that_is_found_takes_the_place_of_the_one_before() -> None:
    """Also an empty one; a set that is the same changes nothing."""
    async with stage(text({"tiny": "f"}), f=Told("a")) as there:
        sets = []
        for ids in (["a", "b"], [], ["c"]):
            there.told["f"].find(*ids)
            await there.found(len(there.taken) + 1)
            sets.append(there.in_force["tiny"])
        there.told["f"].find("c")
        there.told["f"].find("d")
        await there.found(len(there.taken) + 1)

    assert [["a", "b"], [], ["c"]] == sets
    assert {
        'discovery_updates_total{model="tiny",outcome="applied"}': 4.0,
        'discovery_updates_total{model="tiny",outcome="unchanged"}': 1.0,
    } == there.counted("discovery_updates")


async def test_what_is_found_may_not_contradict_the_settings(caplog: pytest.LogCaptureFixture) -> None:
    """Then the set before stays; and it is taken as soon as the settings allow it."""
    async with stage(text({"tiny": (["a"], "f")}), f=Told("b")) as there:
        there.told["f"].find("a", "c")
        while not caplog.messages:
            await asyncio.sleep(0)

        assert {"tiny": ["a", "b"]} == there.in_force
        assert [
            "model tiny: what was found is not taken, nothing has changed: "
            "models[0].workers_file[0].url is 'http://a:1'; each must be its own, and this is that of "
            "models[0].workers[0].url."
        ] == caplog.messages

        await there.reload(text({"tiny": (["a"], "f"), "big": ["x"]}))
        assert {"tiny": ["a", "b"], "big": ["x"]} == there.in_force

        await there.reload(text({"tiny": "f"}))
        assert {"tiny": ["a", "c"]} == there.in_force


async def test_a_worker_of_two_models_may_move() -> None:
    """The first that finds it contradicts what the second has; when both have found it, both are taken."""

    def at(url: str) -> Workers:
        return (WorkerSettings(url=url, id="a"),)

    tiny, big = Told("a"), Told("a")
    async with stage(text({"tiny": "f", "big": "g"}), f=tiny, g=big) as there:
        tiny.sets.put_nowait(at("http://new:1"))
        while not [name for name in there.counted("discovery_updates") if "refused" in name]:
            await asyncio.sleep(0)
        big.sets.put_nowait(at("http://new:1"))
        await there.found(2)

        assert [at("http://new:1"), at("http://new:1")] == [model.workers for model in there.taken[-1].models]
        tiny.find("b")
        await there.found(3)
        assert {"tiny": ["b"], "big": ["a"]} == there.in_force


async def test_several_sources_of_one_model_are_one_set() -> None:
    """Each changes its own part; of two that find the same address the first counts."""
    model = {"name": "tiny", "workers_file": "f", "dns": {"name": "d", "port": 1}}
    sources = {"workers_file": Told("a"), "dns": Told("a", "b")}
    taken: list[Settings] = []
    reloads = Reloads(wall_clock=Clock(1000.0))
    live = LiveSettings(
        parsed(yaml.safe_dump({"models": [model]})),
        take=taken.append,
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
            async with asyncio.timeout(30):
                while len(taken) == count:
                    await asyncio.sleep(0)
        running.cancel()

    assert [["a", "b"], ["a", "c"], ["c"]] == [[worker.id for worker in each.models[0].workers] for each in taken]


async def test_a_contradiction_at_the_start_is_a_start_without_what_was_found(caplog: pytest.LogCaptureFixture) -> None:
    """Other models can be served all the same."""
    async with stage(text({"tiny": (["a"], "f")}), f=Told("a")) as there:
        assert [] == there.taken
        there.told["f"].find("b")
        await there.found(1)

    assert {"tiny": ["a", "b"]} == there.in_force
    assert 1 == len(caplog.messages)


async def test_a_contradiction_between_two_files_at_the_start_costs_the_second_one_only() -> None:
    """The first one is taken, and a third that has nothing to do with it."""
    clash = Told()
    clash.sets.get_nowait()
    clash.sets.put_nowait((WorkerSettings(url="http://elsewhere:1", id="a"),))
    async with stage(text({"one": "f", "two": "g", "three": "h"}), f=Told("a"), g=clash, h=Told("c")) as there:
        assert {"one": ["a"], "two": [], "three": ["c"]} == there.in_force
        assert ['discovery_updates_total{model="two",outcome="refused"}'] == [
            name for name in there.counted("discovery_updates") if "refused" in name
        ]


async def test_a_reload_keeps_what_was_found() -> None:
    """And finds at once what is new to it; what it leaves out is followed no more."""
    async with stage(text({"tiny": "f", "old": "g"}), f=Told("a"), g=Told("b"), h=Told("c")) as there:
        await there.reload(text({"tiny": "f", "new": "h"}))

        assert {"tiny": ["a"], "new": ["c"]} == there.in_force
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [False, True, False] == [there.told[file].closed for file in "fgh"]

        there.told["h"].find("d")
        await there.found(len(there.taken) + 1)
        assert {"tiny": ["a"], "new": ["d"]} == there.in_force


async def test_a_reload_that_contradicts_what_is_found_is_refused() -> None:
    """What it would have followed is not followed, what was followed still is."""
    async with stage(text({"tiny": "f"}), f=Told("a"), g=Told("b")) as there:
        await there.reload(text({"tiny": (["a"], "f"), "big": "g"}))

        assert {"tiny": ["a"]} == there.in_force
        assert {'config_reloads_total{outcome="refused"}': 1.0} == there.counted("config_reloads")
        assert there.told["g"].closed

        there.told["f"].find("z")
        await there.found(len(there.taken) + 1)
        assert {"tiny": ["z"]} == there.in_force


async def test_a_reload_that_names_a_bad_file_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its workers would be gone otherwise; a file that is not there yet may come."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("- urll: x")
    async with stage(text({"tiny": ["a"]}), **{str(tmp_path / "none.yaml"): Told()}) as there:
        await there.reload(text({"tiny": str(bad)}))
        assert 0 == sum(there.counted("config_last_reload").values())

        await there.reload(text({"tiny": str(tmp_path / "none.yaml")}))
        assert {"tiny": []} == there.in_force

    assert "workers[0].urll is not a setting" in caplog.messages[0]


async def test_what_cannot_be_taken_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The discovery says why, the log says of which model."""
    async with stage(text({"tiny": "f"}), f=Told("a")) as there:
        there.refuse["f"](["f is not there."])

        assert {'discovery_updates_total{model="tiny",outcome="refused"}': 1.0} == {
            name: value for name, value in there.counted("discovery_updates").items() if "applied" not in name
        }
        assert {} == there.counted("discovery_last")
    assert ["model tiny: what was found is not taken, nothing has changed: f is not there."] == caplog.messages


async def test_a_discovery_that_fails_ends_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """What it had found stays."""
    async with stage(text({"tiny": "f", "big": "g"}), f=Told("a"), g=Told("b")) as there:
        there.told["f"].sets.put_nowait(RuntimeError("nobody foresaw it"))
        there.told["g"].find("c")
        await there.found(len(there.taken) + 1)
        while not caplog.messages:
            await asyncio.sleep(0)

    assert {"tiny": ["a"], "big": ["c"]} == there.in_force
    assert ["the workers of model tiny are not followed any more"] == caplog.messages


async def test_a_set_that_cannot_be_put_in_force_changes_nothing() -> None:
    """The one before stays."""
    async with stage(text({"tiny": "f"}), f=Told("a")) as there:
        there.fault = SettingsError(["cannot be made."])
        there.told["f"].find("b")
        while not [name for name in there.counted("discovery_updates") if "refused" in name]:
            await asyncio.sleep(0)
        there.fault = None
        there.told["f"].find("c")
        await there.found(len(there.taken) + 1)

    assert {"tiny": ["c"]} == there.in_force


def added(*workers: AddedWorker) -> dict[str, AddedWorker]:
    return {worker.name: worker for worker in workers}


B = AddedWorker("m", "http://b:1", "b")


async def test_an_added_worker_serves_beside_the_others() -> None:
    """It outlives a reload, and gives way to the same one where that is found or listed."""
    async with stage("models: [{name: m, workers_file: f}]", f=Told("a")) as there:
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
    taken: list[Settings] = []
    settings = parsed("models: [{name: m, workers: [{url: 'http://a:1', id: a}]}]")
    reloads = Reloads(wall_clock=Clock(1000.0))
    live = LiveSettings(settings, take=taken.append, discover=lambda *_: Told(), reloads=reloads)
    live.have_added(added(B))
    assert [] == taken
    await live.find()

    assert [["a", "b"]] == [[worker.id for worker in each.models[0].workers] for each in taken]


async def test_an_added_worker_that_cannot_be_in_use_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """One line says why; what is found meanwhile is taken all the same."""
    gone, twin = AddedWorker("gone", "http://c:1", "c"), AddedWorker("m", "http://d:1", "a")
    async with stage("models: [{name: m, workers_file: f}]", f=Told("a")) as there:
        there.live.have_added(added(gone, twin))
        there.told["f"].find("a", "e")
        await there.found(len(there.taken) + 1)
        assert {"m": ["a", "e"]} == there.in_force
        there.told["f"].find("e")
        await there.found(len(there.taken) + 1)
        assert {"m": ["e", "a"]} == there.in_force

    assert [
        "worker a, which the admin API added, is not in use: the id 'a' is that of another worker",
        "worker c, which the admin API added, is not in use: the model 'gone' is not configured",
    ] == [record.getMessage() for record in caplog.records if "admin API" in record.getMessage()]


async def test_added_workers_that_cannot_be_put_in_force_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Who tells of them is the store, which can do nothing about it."""
    async with stage("models: [{name: m, workers: [{url: 'http://a:1', id: a}]}]") as there:
        there.fault = ValueError("cannot be made")
        there.live.have_added(added(B))
        before = there.in_force
        there.fault = None
        await there.reload("models: [{name: m, workers: [{url: 'http://a:1', id: a}], aliases: [x]}]")

        assert [{"m": ["a"]}, {"m": ["a", "b"]}] == [before, there.in_force]
    assert "are not taken, nothing has changed" in caplog.text
