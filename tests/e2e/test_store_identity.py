"""Gateways and commands that share a Redis notice that it is not the one that they know, and make nothing again."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process, replicas
from tests.e2e.governed import OWNER, bearer, chat
from tests.e2e.stack import quick
from tests.storage import RedisServer, RedisServers, free_port

DECLARED = "wg-declared-0123456789abcdef"


def configuration(worker: str, url: str, **store: Any) -> dict[str, Any]:
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"url": worker, "id": "w"}]}],
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "store": {"url": url, **store},
        # A worker that shares the loop with the test may be late, and is not down for that.
        "health": {"timeout_s": 10},
    }


async def status(gateway: GatewayProcess, secret: str) -> int:
    answer = await gateway.http.post("/v1/chat/completions", json=chat(), headers=bearer(secret))
    return answer.status_code


async def ready(gateway: GatewayProcess) -> tuple[int, dict[str, Any]]:
    answer = await gateway.http.get("/readyz")
    return answer.status_code, answer.json()["store"]


async def until_state(gateway: GatewayProcess, state: str) -> tuple[int, dict[str, Any]]:
    async with asyncio.timeout(60):
        while (seen := await ready(gateway))[1]["state"] != state:
            await asyncio.sleep(0.02)
    return seen


def command(folder: Path, settings: Mapping[str, Any], *arguments: str) -> "subprocess.CompletedProcess[str]":
    config = folder / "command.yaml"
    config.write_text(yaml.safe_dump(dict(settings)))
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments, "--config", str(config)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.redis
async def test_a_redis_that_lost_its_data_is_noticed_by_all(redis_server: RedisServer, tmp_path: Path) -> None:
    """FLUSHALL, and one gateway is started again: none makes a new pepper, so no key counts at some gateways only."""
    async with serving(quick()) as worker:
        settings = configuration(worker, redis_server.url, replicas=2)
        async with replicas(tmp_path, settings) as (one, other):
            key = await one.admin.key()
            assert [200, 200] == [await status(each, key.secret) for each in (one, other)]
            with redis_server.client() as client:
                client.flushall()
            seen = [await until_state(each, "lost") for each in (one, other)]
            known = [await status(each, key.secret) for each in (one, other)]
            strange = await status(other, "wg-stranger-0123456789")
            unfit = await one.metric("warmgate_store_unfit")
            made = await one.http.post("/admin/v1/teams", json={"name": "new"}, headers=bearer(OWNER))
            async with gateway_process(tmp_path, settings, name="again", initializes=False) as again:
                fresh = await ready(again)
                refused = await asyncio.to_thread(command, tmp_path, settings, "team", "create", "new")
                with redis_server.client() as client:
                    # A gateway can record its settings in the audit log late, after the loss, with a claim.
                    left = [key for key in client.keys("warmgate:{directory}:*") if b":claim:" not in key]
                initialized = await asyncio.to_thread(command, tmp_path, settings, "store", "init")
                after = await until_state(again, "ready")
                former = await until_state(one, "replaced")
            logged = one.output[1].read_text()

    assert [200, 200] == [code for code, _ in seen], "an outage of the store takes no gateway out"
    assert ([200, 200], 503, 1.0) == (known, strange, unfit)
    assert (503, "store_unavailable") == (made.status_code, made.json()["error"]["code"])
    assert (503, "uninitialized", False) == (fresh[0], fresh[1]["state"], fresh[1]["heard"])
    assert (1, "") == (refused.returncode, refused.stdout)
    assert "warmgate store init" in refused.stderr
    assert [] == left
    assert (0, "") == (initialized.returncode, initialized.stderr)
    assert "The store is now initialized: identity " in initialized.stdout
    assert (200, 200) == (after[0], former[0])
    assert 1 == logged.count("The store has lost its data")


@pytest.mark.redis
async def test_limits_do_not_begin_again_in_a_redis_that_lost_its_data(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with serving(quick()) as worker:
        settings = configuration(worker, redis_server.url)
        declared = {"name": "declared", "limits": {"tokens_per_day": 1_000_000}}
        settings["teams"] = [{**declared, "keys": [{"id": "d", "secret": DECLARED}]}]
        async with gateway_process(tmp_path, settings) as one:
            budget = await one.admin.limited(tokens_per_day=1_000_000)
            rate = await one.admin.limited(requests_per_minute=600)
            assert [200, 200] == [await status(one, key.secret) for key in (budget, rate)]
            with redis_server.client() as client:
                client.flushall()
            await until_state(one, "lost")
            lost = [await status(one, key.secret) for key in (budget, rate)]
            async with gateway_process(tmp_path, settings, name="again", initializes=False) as again:
                fresh = await status(again, DECLARED)
                with redis_server.client() as client:
                    counted = list(client.keys("warmgate:{*}:quota:meters"))
                initialized = await asyncio.to_thread(command, tmp_path, settings, "store", "init")
                await until_state(again, "ready")
                await until_state(one, "replaced")
                await until_counted(again, DECLARED)
                await until_counted(one, budget.secret)
            logged = one.output[1].read_text()

    assert ([503, 200], 503) == (lost, fresh)
    assert [] == counted
    assert 0 == initialized.returncode
    assert 1 == logged.count("the quota store is unavailable")


async def until_counted(gateway: GatewayProcess, secret: str) -> None:
    """Budgets are counted in the store again."""
    async with asyncio.timeout(60):
        while await status(gateway, secret) != 200:
            await asyncio.sleep(0.02)


@pytest.mark.redis
async def test_a_command_without_the_pepper_makes_no_key(redis_server: RedisServer, tmp_path: Path) -> None:
    """It would be made under another one than the gateway has, and be refused there."""
    async with serving(quick()) as worker:
        settings = configuration(worker, redis_server.url, pepper="the-pepper-of-all")
        async with gateway_process(tmp_path, settings) as gateway:
            for store, said in (({}, "Set store.pepper to the pepper"), ({"pepper": "another"}, "but the keys need")):
                wrong = configuration(worker, redis_server.url, **store)
                made = await asyncio.to_thread(command, tmp_path, wrong, "team", "create", "new")
                assert 1 == made.returncode
                assert said in made.stderr
                assert "another " not in made.stderr
                async with gateway_process(tmp_path, wrong, name="wrong", initializes=False) as other:
                    assert 503 == (await ready(other))[0]
            assert 0 == (await asyncio.to_thread(command, tmp_path, settings, "team", "create", "new")).returncode
            assert (200, "ready") == ((seen := await ready(gateway))[0], seen[1]["state"])


@pytest.mark.redis
async def test_a_gateway_with_a_wrong_password_is_not_ready(redis_servers: RedisServers, tmp_path: Path) -> None:
    """Every key that was made would get 503: a rollout must not go on. The one that heard the store stays ready."""
    server = redis_servers.make(port=free_port())
    server.arguments = ("--requirepass", "open-sesame")
    server.start()
    async with serving(quick()) as worker:
        right = configuration(worker, f"redis://:open-sesame@127.0.0.1:{server.port}/0")
        wrong = configuration(worker, f"redis://:open-barley@127.0.0.1:{server.port}/0")
        async with gateway_process(tmp_path, right) as good:
            async with gateway_process(tmp_path, wrong, name="bad") as bad:
                refused = await ready(bad)
                log = bad.output[1].read_text()
            server.kill()
            outage = await until_state(good, "away")

    fault = "The store does not answer: wrong user or password"
    assert (503, {"state": "away", "heard": False, "fault": fault}) == refused
    assert 1 == log.count("the store of teams and keys is unavailable")
    assert "open-barley" not in log
    assert (200, True) == (outage[0], outage[1]["heard"])


async def test_a_file_that_is_taken_away_is_noticed(tmp_path: Path) -> None:
    """What is written to it would be lost at the end; a command would fill another file."""
    path = tmp_path / "warmgate.db"
    async with serving(quick()) as worker, gateway_process(tmp_path, configuration(worker, f"sqlite:///{path}")) as one:
        key = await one.admin.key()
        assert 200 == await status(one, key.secret)
        away = path.rename(tmp_path / "away.db")
        seen = await until_state(one, "lost")
        known = await status(one, key.secret)
        path.write_bytes(b"")
        other = await until_state(one, "replaced")
        away.rename(path)
        back = await until_state(one, "ready")

    assert (200, 200, 200, 200) == (seen[0], known, other[0], back[0])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"This is no database. " * 1000, "file is not a database"),
        (b"SQLite format 3\x00" + b"\xff" * 4080, "file is not a database"),
    ],
)
def test_a_corrupt_file_is_one_sentence_at_the_start(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "warmgate.db").write_bytes(content)
    settings = configuration("http://127.0.0.1:1", f"sqlite:///{tmp_path}/warmgate.db")
    ended = command(tmp_path, settings, "serve")

    assert 1 == ended.returncode
    assert (
        f"Warmgate cannot start: The SQLite file warmgate.db cannot be used: {said}." == ended.stderr.splitlines()[-1]
    )
    assert "Traceback" not in ended.stderr
