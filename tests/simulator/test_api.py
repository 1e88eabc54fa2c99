import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

METRICS = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:time_to_first_token_seconds_sum",
    "vllm:time_to_first_token_seconds_count",
    "vllm:cache_config_info",
    "process_start_time_seconds",
}


async def test_the_model_that_is_served(worker: httpx.AsyncClient) -> None:
    """One card, with the longest context."""
    (card,) = (await worker.get("/v1/models")).json()["data"]

    assert ("tiny", "tiny", 8192) == (card["id"], card["root"], card["max_model_len"])


@pytest.mark.parametrize("path", ["/health", "/ping"])
async def test_a_worker_is_well(worker: httpx.AsyncClient, path: str) -> None:
    """An empty 200."""
    reply = await worker.get(path)

    assert (200, b"") == (reply.status_code, reply.content)


async def test_the_version_reports_the_wire_format(worker: httpx.AsyncClient) -> None:
    assert {"version": "0.33.0"} == (await worker.get("/version")).json()


async def test_metrics_move_with_the_work(worker: httpx.AsyncClient) -> None:
    """All names of vLLM are there, and one cold and one warm request are counted in tokens."""
    body = {"prompt": "e" * 400, "max_tokens": 7, "ignore_eos": True}  # 100 tokens: 6 full blocks
    for _ in range(2):
        await worker.post("/v1/completions", json=body)
    reply = await worker.get("/metrics")
    seen = {
        sample.name: sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
        if sample.labels.get("finished_reason", "length") == "length"
    }

    assert set() == METRICS - seen.keys()
    assert (200, 96) == (seen["vllm:prefix_cache_queries_total"], seen["vllm:prefix_cache_hits_total"])
    assert (200, 14) == (seen["vllm:prompt_tokens_total"], seen["vllm:generation_tokens_total"])
    assert (2, 2) == (seen["vllm:request_success_total"], seen["vllm:time_to_first_token_seconds_count"])
    assert (
        'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="512"} 1.0'
        in (reply.text)
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/control/nothing", 404),
    ],
)
async def test_unknown_routes(worker: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    """They are refused in the shape of every other error."""
    reply = await worker.request(method, path)

    assert (status, status) == (reply.status_code, reply.json()["error"]["code"])


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/rerank", "/score"]
)
async def test_only_json_is_taken(worker: httpx.AsyncClient, path: str) -> None:
    """Malformed JSON and other media types are a 400, on every path that takes a body."""
    media = await worker.post(path, content=b"{}", headers={"content-type": "text/plain"})
    malformed = await worker.post(path, content=b"{", headers={"content-type": "application/json"})

    assert (400, 400) == (media.status_code, malformed.status_code)
    assert "BadRequestError" == malformed.json()["error"]["type"]
