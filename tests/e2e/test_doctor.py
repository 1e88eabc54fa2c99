"""`warmgate doctor` finds each fault that is planted, and nothing where nothing is wrong."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from simulator.defects import Defects
from simulator.tokenizer_folder import write_tokenizer
from tests.e2e.doctored import LIMITED, SYSTEM, Diagnosis, doctor, doctored, worker
from tests.e2e.gateway_process import gateway_process
from tests.e2e.governed import OWNER
from tests.e2e.stack import program
from tests.storage import free_port


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The simulated model's own tokenizer, and the place of the store."""
    write_tokenizer(tmp_path)
    return tmp_path


def chat(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    return {"model": "tiny", "messages": messages, "max_tokens": 2, **more}


def is_found(found: Diagnosis, severity: str, code: str, worker: str | None = None) -> bool:
    """Whether this is a finding, with the section that helps, and the command failed."""
    pages = {each["page"] for each in found.findings if each["code"] == code}
    wanted = {f"docs/operate/troubleshoot-by-symptom.md#{code}"}
    return (severity, code, worker) in found.named() and pages == wanted and found.code == 1


async def test_a_healthy_fleet_has_no_finding(folder: Path) -> None:
    """After streams, long prompts, and the tests of each worker."""
    async with doctored(folder, worker(), worker(), worker()) as fleet:
        await fleet.checked()
        for number in range(24):
            await fleet.ask(chat(f"Question {number}?", max_tokens=20, stream=True))
        found = await fleet.diagnosis()

    assert (0, []) == (found.code, found.findings)


async def test_another_block_size(folder: Path) -> None:
    """One worker among three has another size, and the metrics of one contradict its events."""
    lies = worker(defects=Defects(reported_block_size=64))
    async with doctored(folder, worker(), worker(), worker(block_size=32), lies) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "error", "wrong-block-size", "w2")
    assert is_found(found, "error", "wrong-block-size", "w3")
    assert {"w2", "w3"} == {each["worker"] for each in found.findings}


async def test_another_hash_seed(folder: Path) -> None:
    """The events of one engine have other hashes for the same tokens."""
    async with doctored(folder, worker(), worker(), worker(defects=Defects(hash_seed=7))) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "hash-seeds-differ", "w2")
    assert 1 == len(found.findings)


async def test_no_replay_endpoint(folder: Path) -> None:
    async with doctored(folder, worker(), worker(events={"replay_port": None})) as fleet:
        await fleet.until(lambda workers: all(each["stream"] for each in workers))
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "no-replay-endpoint", "w1")
    assert {"w1"} == {each["worker"] for each in found.findings}


async def test_prefix_caching_off(folder: Path) -> None:
    """The engine's metrics say so."""
    async with doctored(folder, worker(), worker(defects=Defects(enable_prefix_caching=False))) as fleet:
        await fleet.until(lambda workers: workers[1]["prefix_caching"] is not None)
        found = await fleet.diagnosis()

    assert is_found(found, "error", "prefix-caching-off", "w1")


async def test_lost_events(folder: Path) -> None:
    """Two batches get lost on their way, and cannot be replayed."""
    async with doctored(folder, worker()) as fleet:
        await fleet.checked()
        (url,) = fleet.there.workers
        await fleet.there.http.post(f"{url}/control/kv_events", json={"lose": 2, "lost_can_be_replayed": False})
        for number in range(4):
            await fleet.ask(chat(f"{number} {'more words ' * 20}"))
        await fleet.until(lambda workers: workers[0]["stream"]["doubt"] == "lost")
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "lost-events", "w0")


async def test_another_tokenizer(folder: Path) -> None:
    """The template of the folder is that of another model."""
    path = folder / "tokenizer_config.json"
    path.write_text(path.read_text().replace("<|im_start|>assistant", "<|im_start|>model"))
    async with doctored(folder, worker()) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "error", "wrong-tokenizer", "w0")
    assert 1 == len(found.findings)


async def test_a_worker_that_reports_other_hits(folder: Path) -> None:
    """Its usage says half of what its events show."""
    async with doctored(folder, worker(), worker(defects=Defects(cached_tokens_factor=0.5))) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "error", "untrue-hits", "w1")
    assert 1 == len(found.findings)


async def test_another_capacity(folder: Path) -> None:
    """One worker has more blocks than its metrics say, and one that has fewer evicts."""
    more, fewer = Defects(reported_blocks=8), Defects(reported_blocks=2048)
    options = worker(blocks=64, defects=more), worker(blocks=64, defects=fewer)
    async with doctored(folder, *options, model={"strategy_header": True}) as fleet:
        await fleet.checked()
        for number in range(12):
            prompt = f"{number} {'other words ' * 60}"
            for url in fleet.there.workers:
                body = {"model": "tiny", "prompt": prompt, "max_tokens": 1}
                await fleet.there.http.post(f"{url}/v1/completions", json=body)
        await fleet.until(lambda workers: all((each["stream"] or {})["removed_blocks"] >= 32 for each in workers))
        found = await fleet.diagnosis()

    assert is_found(found, "error", "wrong-capacity", "w0")
    assert is_found(found, "error", "wrong-capacity", "w1")


async def test_prompts_that_are_shorter_than_a_block(folder: Path) -> None:
    async with doctored(folder, worker()) as fleet:
        await fleet.checked()
        for number in range(25):
            body = {"model": "tiny", "messages": [{"role": "user", "content": f"Hi {number}"}], "max_tokens": 1}
            await fleet.ask(body)
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "prompts-under-one-block")
    assert 1 == len(found.findings)


async def test_round_robin(folder: Path) -> None:
    async with doctored(folder, worker(), worker(), model={"strategy": "round_robin"}) as fleet:
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "round-robin-configured")
    assert 1 == len(found.findings)


async def test_redis_is_away(folder: Path) -> None:
    """The finding does not show its password."""
    url = f"redis://:hidden@127.0.0.1:{free_port()}/0"
    async with doctored(folder, worker(), store={"url": url}) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "error", "store-unavailable")
    assert "hidden" not in found.text


@pytest.mark.parametrize("skew_s", [120.0, -120.0])
async def test_clock_skew(folder: Path, skew_s: float) -> None:
    """The worker's clock is two minutes ahead, or behind."""
    async with doctored(folder, worker(), worker(defects=Defects(clock_skew_s=skew_s))) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "clock-skew", "w1")
    assert 1 == len(found.findings)


async def test_a_key_without_limits(folder: Path) -> None:
    """Neither it nor its team has one; soft budgets do not count."""
    free = {"name": "red", "limits": {"soft_usd_per_day": 5}, "keys": [{"id": "free", "secret": "r-e-d" * 8}]}
    async with doctored(folder, worker(), teams=[LIMITED, free]) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "key-without-limits")
    assert [("red", True)] == [(each["team"], "free" in each["text"]) for each in found.findings]


async def test_an_expired_canary(folder: Path) -> None:
    """Test requests of a fallback on Bedrock are never repeated, and the first one failed."""
    bedrock = {"region": "us-east-1", "endpoint_url": f"http://127.0.0.1:{free_port()}", "canary_every_s": None}
    model = {"fallbacks": [{"bedrock": {"model_id": "meta.llama3-1-8b-instruct-v1:0"}}]}
    async with doctored(folder, worker(), model=model, bedrock=bedrock) as fleet:
        await fleet.checked()
        found = await fleet.diagnosis()

    assert is_found(found, "warning", "expired-canary")
    assert {"bedrock:meta.llama3-1-8b-instruct-v1:0"} == {each["fallback"] for each in found.findings}


async def test_a_proxy_that_buffers(folder: Path) -> None:
    """Streams of one worker arrive as a whole, at their end."""
    async with doctored(folder, worker(defects=Defects(buffer_streams=True))) as fleet:
        await fleet.checked()
        for number in range(6):
            await fleet.ask(chat(f"Question {number}?", max_tokens=20, stream=True))
        found = await fleet.diagnosis()

    assert is_found(found, "error", "buffered-streams", "w0")
    assert 1 == len(found.findings)


async def test_every_part_in_a_process_of_its_own(folder: Path) -> None:
    """The worker's defect comes from its command line; the settings file alone shows it as well."""
    options = ("--port", "0", "--kv-events-port", "0", "--replay-port", "0", "--no-enable-prefix-caching")
    async with program("simulate", *options) as (_, url):
        settings = {
            "server": {"port": 0},
            "models": [{"name": "tiny", "workers": [{"url": url, "id": "w0"}]}],
            "health": {"interval_s": 0.2, "metrics_interval_s": 0.5},
            "admin": {"keys": [{"id": "root", "role": "viewer", "secret": OWNER}]},
            "teams": [LIMITED],
            "store": {"url": f"sqlite:///{folder}/warmgate.db"},
        }
        async with gateway_process(folder, settings) as gateway:
            async with asyncio.timeout(60):
                while "warmgate_worker_engine_running{" not in (await gateway.http.get("/metrics")).text:
                    await asyncio.sleep(0.05)
            asked = await doctor("--url", gateway.url)
            read = await doctor("--config", str(gateway.config))

    assert [("error", "prefix-caching-off", "w0")] == list(asked.named())
    assert asked.findings == read.findings
