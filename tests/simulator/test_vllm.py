import re

import httpx
import pytest
from prometheus_client.metrics_core import Metric

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.sleep import SleepState
from simulator.vllm import VllmMetrics
from tests.simulator.test_exposition import LOAD

CACHE = {"block_size": "16", "num_gpu_blocks": "2048"}


def values(metrics: list[Metric]) -> dict[str, float]:
    return {sample.name: sample.value for metric in metrics for sample in metric.samples}


def metrics(*, old_names: bool = False, sleep: SleepState = "awake") -> VllmMetrics:
    return VllmMetrics(model="tiny", cache_config=CACHE, sleep_state=lambda: sleep, old_names=old_names)


def test_names_and_values_are_those_of_vllm() -> None:
    """Gauges and counters of one engine, by model and data-parallel rank."""
    families = list(metrics().families(LOAD))
    expected = {
        "vllm:num_requests_running": 3,
        "vllm:num_requests_waiting": 2,
        "vllm:kv_cache_usage_perc": 0.25,
        "vllm:prefix_cache_queries_total": 100,
        "vllm:prefix_cache_hits_total": 48,
        "vllm:prompt_tokens_total": 90,
        "vllm:generation_tokens_total": 70,
        "vllm:num_preemptions_total": 1,
        "vllm:cache_config_info": 1,
    }

    assert expected.items() <= values(families).items()
    assert {"model_name": "tiny", "engine": "0"} == families[0].samples[0].labels


def test_the_cache_is_described_by_labels() -> None:
    """Block size and number of blocks are where a router looks for them."""
    (info,) = [family for family in metrics().families(LOAD) if family.name == "vllm:cache_config_info"]

    assert {"block_size": "16", "num_gpu_blocks": "2048", "engine": "0"} == info.samples[0].labels


@pytest.mark.parametrize("state", ["awake", "weights_offloaded", "discard_all"])
def test_the_state_of_sleep(state: SleepState) -> None:
    """One for the state it is in, zero for the others."""
    (family,) = [family for family in metrics(sleep=state).families(LOAD) if family.name == "vllm:engine_sleep_state"]
    seen = {sample.labels["sleep_state"]: sample.value for sample in family.samples}

    assert {"awake": 0, "weights_offloaded": 0, "discard_all": 0} | {state: 1} == seen


def test_the_old_name_of_cache_usage() -> None:
    """The present one is not there then."""
    seen = values(list(metrics(old_names=True).families(LOAD)))

    assert 0.25 == seen["vllm:gpu_cache_usage_perc"]
    assert set() == {"vllm:kv_cache_usage_perc", "vllm:engine_sleep_state"} & seen.keys()


async def test_a_dead_engine_is_ill(worker: httpx.AsyncClient) -> None:
    """Health says so, and everything else goes on."""
    await worker.post("/control/faults", json={"mode": "engine_dead"})
    statuses = {path: (await worker.get(path)).status_code for path in ("/health", "/ping", "/v1/models", "/metrics")}

    assert {"/health": 503, "/ping": 503, "/v1/models": 200, "/metrics": 200} == statuses


async def test_the_card_of_the_model(worker: httpx.AsyncClient) -> None:
    """It is vLLM's."""
    (card,) = (await worker.get("/v1/models")).json()["data"]

    assert ("tiny", "vllm", 8192) == (card["id"], card["owned_by"], card["max_model_len"])


async def test_adapters_are_models_with_a_parent() -> None:
    """Beside the card of the model itself."""
    options = SimulatorOptions(port=0, lora_modules=("poet",))
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        cards = (await worker.get("/v1/models")).json()["data"]

    assert [("tiny", None), ("poet", "tiny")] == [(card["id"], card["parent"]) for card in cards]


async def test_the_sources_of_events() -> None:
    options = SimulatorOptions(port=0, kv_events=EventOptions(topic="kv@a", replay_port=0, buffer_steps=7))
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        sources = (await worker.get("/kv_event_sources")).json()

    endpoints = sources["0"].pop("endpoint"), sources["0"].pop("replay_endpoint")
    assert all(re.fullmatch(r"tcp://127\.0\.0\.1:\d+", endpoint) for endpoint in endpoints)
    assert endpoints[0] != endpoints[1]
    assert {
        "0": {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "buffer_steps": 7,
            "hwm": 100_000,
            "max_queue_size": 100_000,
            "topic": "kv@a",
        }
    } == sources


async def test_there_may_be_no_replay() -> None:
    options = SimulatorOptions(port=0, kv_events=EventOptions())
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        assert None is (await worker.get("/kv_event_sources")).json()["0"]["replay_endpoint"]
