"""Changing what is configured under a running gateway, over real sockets: no one who is being served notices."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from simulator.server import serving
from tests.e2e.stack import program, quick

TOKEN = "t-1"


@dataclass
class Live:
    """A gateway in a process of its own, and the files that it follows."""

    process: asyncio.subprocess.Process
    url: str
    http: httpx.AsyncClient
    config: Path
    workers_file: Path

    def configure(self, workers: Sequence[str], **groups: Any) -> None:
        """Write the configuration as an editor does: another file, renamed over it."""
        write(self.config, configuration(workers, **groups))

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    async def metric(self, name: str) -> dict[str, float]:
        """Its samples by labels."""
        lines = (await self.http.get("/metrics")).text.splitlines()
        found = [
            line.rsplit(" ", 1) for line in lines if line.startswith((f"warmgate_{name}" + "{", f"warmgate_{name} "))
        ]
        return {labels.removeprefix(f"warmgate_{name}"): float(value) for labels, value in found}

    async def outcome(self, outcome: str, count: int = 1) -> None:
        """Wait until reloads have had it so often."""
        async with asyncio.timeout(60):
            while (await self.metric("config_reloads_total"))[f'{{outcome="{outcome}"}}'] < count:
                await asyncio.sleep(0.02)

    async def workers(self) -> dict[str, str]:
        """The state of each."""
        listed = (await self.http.get("/admin/v1/workers", headers=admin())).json()["workers"]
        return {each["worker"]: each["state"] for each in listed}

    async def until(self, **states: str) -> None:
        """Wait until these are the workers, by id, and their states."""
        async with asyncio.timeout(60):
            while await self.workers() != states:
                await asyncio.sleep(0.02)

    async def ask(self, **fields: Any) -> httpx.Response:
        return await self.http.post("/v1/chat/completions", json=chat(**fields))

    @asynccontextmanager
    async def streaming(self, **fields: Any) -> AsyncIterator[tuple[str, "asyncio.Task[str]"]]:
        """The id of the worker of a stream that has begun, and the task that reads all of it."""
        async with self.http.stream("POST", "/v1/chat/completions", json=chat(stream=True, **fields)) as response:
            pieces = response.aiter_text()
            first = await anext(pieces)

            async def whole() -> str:
                return first + "".join([piece async for piece in pieces])

            async with asyncio.TaskGroup() as tasks:
                yield response.headers["x-warmgate-worker"], tasks.create_task(whole())


def admin() -> dict[str, str]:
    return {"authorization": f"Bearer {TOKEN}"}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 150, **fields}


def entries(workers: Sequence[str]) -> list[dict[str, str]]:
    """Workers called a, b, c ... by address."""
    return [{"url": url, "id": chr(ord("a") + i)} for i, url in enumerate(workers)]


def configuration(workers: Sequence[str], **groups: Any) -> str:
    server = {"port": 0, **groups.pop("server", {})}
    operator = {"id": "tests", "role": "operator", "secret": TOKEN}
    admin = {"keys": [operator, *groups.pop("admin", {}).get("keys", [])]}
    model = {"name": "tiny", "workers": entries(workers), **groups.pop("model", {})}
    dumped: str = yaml.safe_dump(
        {
            "server": server,
            "admin": admin,
            "models": [model],
            "health": {"interval_s": 0.1},
            "retry": {"wait_s": 0.2},
            **groups,
        }
    )
    return dumped


def write(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text)
    other.rename(path)


@asynccontextmanager
async def live(folder: Path, workers: Sequence[str], **groups: Any) -> AsyncIterator[Live]:
    config = folder / "warmgate.yaml"
    write(config, configuration(workers, **groups))
    async with program("serve", "--config", str(config)) as (process, url):
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
            yield Live(process, url, client, config, folder / "workers.yaml")
        process.send_signal(signal.SIGTERM)
        assert 0 == await asyncio.wait_for(process.wait(), 60)


@asynccontextmanager
async def slow_workers(count: int) -> AsyncIterator[list[str]]:
    """Simulated workers, whose answers of 150 tokens take over two seconds; longer, if they are held back."""
    async with contextlib.AsyncExitStack() as exits:
        yield [await exits.enter_async_context(serving(quick(speed=1, tpot_ms=15))) for _ in range(count)]


async def hold_back(worker: str, *, factor: float = 50) -> None:
    """Slow the simulated *worker* down. By default 150 tokens take two minutes, the first one a tenth of a second."""
    async with httpx.AsyncClient(base_url=worker, timeout=60, verify=False) as client:
        fault = {"mode": "slow", "factor": factor} if factor > 1 else {"mode": "none"}
        (await client.post("/control/faults", json=fault)).raise_for_status()


@asynccontextmanager
async def held_back(worker: str) -> AsyncIterator[None]:
    """Slow the simulated *worker* down so that nothing which runs on it ends before this does."""
    await hold_back(worker, factor=1e4)
    yield
    await hold_back(worker, factor=1)


async def test_streams_go_on_while_everything_changes(tmp_path: Path) -> None:
    """Their worker leaves, another comes, the strategy changes; what they began with serves them to the end."""
    async with slow_workers(2) as (first, second), live(tmp_path, [first]) as gateway:
        usage = {"stream_options": {"include_usage": True}}
        await hold_back(first)
        async with gateway.streaming(**usage) as (worker, one), gateway.streaming(**usage) as (_, other):
            gateway.configure([first, second], model={"strategy": "round_robin", "aliases": ["gpt-4o"]})
            await gateway.outcome("applied")
            await gateway.until(a="up", b="up")
            write(gateway.config, configuration([second]).replace("id: a", "id: b"))
            gateway.hang_up()
            await gateway.outcome("applied", 2)
            await gateway.until(b="up")
            answer = await gateway.ask(max_tokens=1)
            assert not one.done()
            await hold_back(first, factor=1)
            texts = [await one, await other]

        assert "a" == worker
        assert ["[DONE]"] * 2 == [text.strip().rpartition("data: ")[2] for text in texts]
        assert [True] * 2 == ['"completion_tokens":' in text and '"error"' not in text for text in texts]
        assert (200, "b") == (answer.status_code, answer.headers["x-warmgate-worker"])
        assert {'{model="tiny"}': 0.0} == await gateway.metric("requests_in_flight")


async def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    """Half of it, or one with a wrong value; requests go on, the metric says so, and a good one mends it."""
    async with serving(quick()) as worker, live(tmp_path, [worker]) as gateway:
        good = configuration([worker])
        write(gateway.config, good[: good.index("id: a") - 4])
        await gateway.outcome("refused")
        write(gateway.config, good.replace("http://", "ftp://"))
        gateway.hang_up()
        await gateway.outcome("refused", 2)

        assert {"": 0.0} == await gateway.metric("config_last_reload_successful")
        assert ({"a": "up"}, 200) == (await gateway.workers(), (await gateway.ask(max_tokens=1)).status_code)

        write(gateway.config, good.replace("id: a", "id: other"))
        gateway.hang_up()
        await gateway.outcome("applied")

        assert {"": 1.0} == await gateway.metric("config_last_reload_successful")
        await gateway.until(other="up")


async def test_sighup_reads_the_configuration_again(tmp_path: Path) -> None:
    """At once, also where nothing has changed; what needs a restart is reported."""
    server = {"port": 0}
    async with serving(quick()) as worker, live(tmp_path, [worker], server=server) as gateway:
        gateway.hang_up()
        await gateway.outcome("unchanged")
        gateway.configure([worker], server=server | {"max_connections": 7}, model={"aliases": ["gpt-4o"]})
        gateway.hang_up()
        await gateway.outcome("applied")

        assert {'{setting="server.max_connections"}': 1.0} == await gateway.metric("config_needs_restart")
        assert 200 == (await gateway.ask(model="gpt-4o", max_tokens=1)).status_code


async def test_without_a_file_sighup_changes_nothing() -> None:
    """A gateway that has all its settings from variables lives on."""
    variables = {"WARMGATE_SERVER__PORT": "0", "WARMGATE_MODELS__0__NAME": "tiny"}
    variables["WARMGATE_MODELS__0__WORKERS__0__URL"] = "http://127.0.0.1:1"
    command = [sys.executable, "-m", "gateway", "serve"]
    process = await asyncio.create_subprocess_exec(*command, env=os.environ | variables, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().removeprefix("ready: ").strip()
    async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while 'reloads_total{outcome="unchanged"} 1.0' not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.02)
    process.terminate()
    await process.communicate()

    assert 0 == process.returncode


async def test_a_file_of_workers_is_followed(tmp_path: Path) -> None:
    """Not there yet: 503; it comes, changes, is broken, goes: the last good set stays."""
    file = tmp_path / "workers.yaml"
    by_file = {"workers_file": str(file)}
    async with serving(quick()) as first, serving(quick()) as second, live(tmp_path, [], model=by_file) as gateway:
        before = await gateway.ask()
        ready = (await gateway.http.get("/readyz")).json()
        write(file, yaml.safe_dump(entries([first])))
        await gateway.until(a="up")
        one = await gateway.ask(max_tokens=1)
        write(file, yaml.safe_dump(entries([first, second])))
        await gateway.until(a="up", b="up")
        write(file, "- url: [")
        await _refused(gateway, 1)
        remove(file)
        await _refused(gateway, 2)

        assert (503, "no_worker_available") == (before.status_code, before.json()["error"]["code"])
        assert {"tiny": "there are no workers yet"} == ready["models"]
        assert (200, {"a": "up", "b": "up"}) == (one.status_code, await gateway.workers())
        assert {'{model="tiny"}': 0.0} == await gateway.metric("discovery_last_update_successful")


async def test_a_worker_is_drained(tmp_path: Path) -> None:
    """Its stream ends well, nothing new comes; it stays drained over a reload, and the last one may be drained too."""
    async with slow_workers(2) as workers, live(tmp_path, workers, model={"strategy": "round_robin"}) as gateway:
        for url in workers:
            await hold_back(url)
        async with gateway.streaming() as (worker, stream):
            other = {"a": "b", "b": "a"}[worker]
            assert 200 == (await _drain(gateway, worker)).status_code
            answers = [await gateway.ask(max_tokens=1) for _ in range(4)]
            draining = await gateway.workers()
            for url in workers:
                await hold_back(url, factor=1)
            text = await stream
        await gateway.until(**{worker: "drained", other: "up"})
        gateway.configure(workers, model={"strategy": "session"})
        gateway.hang_up()
        await gateway.outcome("applied")

        assert [other] * 4 == [answer.headers["x-warmgate-worker"] for answer in answers]
        assert "draining" == draining[worker]
        assert text.endswith("data: [DONE]\n\n")
        assert {worker: "drained", other: "up"} == await gateway.workers()
        gauge = await gateway.metric("worker_draining")
        assert {worker: 1.0, other: 0.0} == {labels.split('"')[3]: value for labels, value in gauge.items()}

        await _drain(gateway, other)
        refused, ready = await gateway.ask(), await gateway.http.get("/readyz")
        assert (503, 503) == (refused.status_code, ready.status_code)
        assert {"tiny": "all of 2 workers are draining"} == ready.json()["models"]

        await _drain(gateway, worker, "undrain")
        assert worker == (await gateway.ask(max_tokens=1)).headers["x-warmgate-worker"]


async def _drain(gateway: Live, worker: str, how: str = "drain") -> httpx.Response:
    return await gateway.http.post(f"/admin/v1/workers/{how}", json={"worker": worker}, headers=admin())


async def _refused(gateway: Live, count: int) -> None:
    """Wait until sets of workers were refused so often."""
    async with asyncio.timeout(60):
        while (await gateway.metric("discovery_updates_total"))['{model="tiny",outcome="refused"}'] < count:
            await asyncio.sleep(0.02)


def remove(path: Path) -> None:
    path.unlink()


async def test_a_change_of_the_file_is_in_the_audit_log(tmp_path: Path) -> None:
    """With what it changed, and by the file; also one between two starts."""
    url = f"sqlite:///{tmp_path / 'warmgate.db'}"
    groups = {"admin": {"keys": [{"role": "viewer", "secret": "v-1"}]}, "store": {"url": url, "pepper": "p" * 32}}
    teams = [{"name": "blue", "keys": [{"id": "ci", "secret": "s-of-ci-1"}]}]

    async def audited(gateway: Live, count: int) -> list[Any]:
        async with asyncio.timeout(60):
            while True:
                response = await gateway.http.get("/admin/v1/audit", headers={"x-api-key": "v-1"})
                entries: list[Any] = response.json()["data"]
                if len(entries) >= count:
                    return entries
                await asyncio.sleep(0.02)

    async with serving(quick()) as worker:
        async with live(tmp_path, [worker], **groups) as gateway:
            await audited(gateway, 1)
            gateway.configure([worker], teams=teams, **groups)
            changed, key, team, start = await audited(gateway, 4)
        async with live(tmp_path, [worker], queue={"low_share": 0.2}, **groups) as gateway:
            between = (await audited(gateway, 5))[0]

    who = f"file:{tmp_path / 'warmgate.yaml'}"
    assert {who} == {each["who"] for each in (changed, key, team, start, between)}
    assert [("start", "settings"), ("create", "team"), ("create", "key"), ("update", "settings")] == [
        (each["action"], each["kind"]) for each in (start, team, key, changed)
    ]
    assert changed["after"]["teams[blue].keys[ci].secret"].startswith("(secret ")
    assert 0.2 == between["after"]["queue.low_share"]
    assert "blue" == between["before"]["teams[blue].name"]
    assert "s-of-ci-1" not in str((changed, key, team, start, between))


async def test_a_changed_template_or_group_changes_teams_of_the_file_and_of_the_admin_api(tmp_path: Path) -> None:
    """Without the template or the group that it names, a team of the admin API is refused."""
    groups: dict[str, Any] = {
        "admin": {"keys": [{"role": "owner", "secret": "s-of-owner"}]},
        "store": {"url": f"sqlite:///{tmp_path / 'warmgate.db'}"},
    }
    named = {"limit_template": "standard", "models": ["group:chat"]}
    team = {"name": "blue", "keys": [{"id": "ci", "secret": "s-of-ci"}], **named}

    def declared(amount: int, *models: str) -> dict[str, Any]:
        templates = [{"name": "standard", "limits": {"requests_per_minute": amount}}]
        return {"limit_templates": templates, "model_groups": [{"name": "chat", "models": list(models)}]} | groups

    async def outcomes(gateway: Live, *secrets: str) -> list[tuple[int, str | None]]:
        """The status of a request with each key, and the limit or the code of the error."""
        found = []
        for secret in secrets:
            answer = await gateway.http.post(
                "/v1/chat/completions", json=chat(max_tokens=1), headers={"authorization": f"Bearer {secret}"}
            )
            said = answer.headers.get("x-ratelimit-limit-requests")
            found.append((answer.status_code, said if answer.is_success else answer.json()["error"]["code"]))
        return found

    async with serving(quick()) as worker, live(tmp_path, [worker], teams=[team], **declared(600, "tiny")) as gateway:
        owner = {"x-api-key": "s-of-owner"}
        made = await gateway.http.post("/admin/v1/teams", json={"name": "red", **named}, headers=owner)
        key = await gateway.http.post("/admin/v1/keys", json={"team": "red"}, headers=owner)
        secrets = ("s-of-ci", key.json()["secret"])
        before = await outcomes(gateway, *secrets)
        gateway.configure([worker], teams=[team], **declared(900, "tiny", "big"))
        await gateway.outcome("applied")
        changed = await outcomes(gateway, *secrets)
        gateway.configure([worker], teams=[team], **declared(900, "big"))
        await gateway.outcome("applied", 2)
        without_model = await outcomes(gateway, *secrets)
        gateway.configure([worker], teams=[{**team, "limit_template": None, "models": None}], **groups)
        await gateway.outcome("applied", 3)
        removed = await outcomes(gateway, *secrets)
        gateway.configure([worker], teams=[team], **groups)
        await gateway.outcome("refused")

    assert 201 == made.status_code, made.text
    assert [(200, "600")] * 2 == before
    assert [(200, "900")] * 2 == changed
    assert [(403, "model_not_allowed")] * 2 == without_model
    assert [(200, None), (403, "limit_template_missing")] == removed


async def test_a_worker_is_added_and_removed_by_the_admin_api(tmp_path: Path) -> None:
    """It serves at once, outlives a reload, and is gone when it is removed; only what was added can be."""
    keys = [{"role": role, "secret": f"s-of-{role}"} for role in ("owner", "operator")]
    groups = {"admin": {"keys": keys}}

    async def ask(gateway: Live, method: str, who: str = "owner", **more: Any) -> httpx.Response:
        return await gateway.http.request(method, "/admin/v1/workers", headers={"x-api-key": f"s-of-{who}"}, **more)

    async with serving(quick()) as first, serving(quick()) as second, live(tmp_path, [first], **groups) as gateway:
        body = {"model": "tiny", "url": second, "id": "b"}
        refused = [
            await ask(gateway, "POST", "operator", json=body),
            await ask(gateway, "POST", json=body | {"model": "big"}),
            await ask(gateway, "POST", json=body | {"url": first}),
            await ask(gateway, "POST", json=body | {"url": second.replace("http://", "http://me:secret@")}),
            await ask(gateway, "POST", json=body | {"url": "file:///etc/passwd"}),
        ]
        added = await ask(gateway, "POST", json=body)
        again = await ask(gateway, "POST", json=body)
        await gateway.until(a="up", b="up")
        gateway.configure([first], model={"aliases": ["gpt-4o"]}, **groups)
        await gateway.outcome("applied")
        after_reload = await gateway.workers()
        not_added = await ask(gateway, "DELETE", params={"model": "tiny", "worker": "a"})
        removed = await ask(gateway, "DELETE", params={"model": "tiny", "worker": "b"})
        left = await gateway.workers()
        log = await gateway.http.get("/admin/v1/audit", headers={"x-api-key": "s-of-owner"})

    assert [403, 404, 409, 400, 400] == [each.status_code for each in refused]
    assert "secret" not in refused[3].text
    assert (201, 409) == (added.status_code, again.status_code)
    assert ["b"] == [each["worker"] for each in added.json()["workers"]]
    assert {"a": "up", "b": "up"} == after_reload
    assert (409, 204, {"a": "up"}) == (not_added.status_code, removed.status_code, left)
    assert [("delete", "b"), ("create", "b")] == [
        (each["action"], each["id"]) for each in log.json()["data"] if each["kind"] == "worker"
    ]
