import httpx
import pytest

from simulator.errors import Dialect
from simulator.options import SimulatorOptions
from simulator.server import serving


@pytest.mark.parametrize(
    ("dialect", "metric", "path"),
    [
        ("vllm", "vllm:num_requests_running", "/version"),
        ("sglang", "sglang:num_running_reqs", "/server_info"),
        ("dynamo", "dynamo_frontend_inflight_requests", "/live"),
    ],
)
async def test_a_worker_of_each_dialect(dialect: Dialect, metric: str, path: str) -> None:
    """It has the metrics and the routes of its engine, and answers chats and the start time like any other."""
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
    options = SimulatorOptions(port=0, speed=0, dialect=dialect)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        statuses = [
            (await worker.get(path)).status_code,
            (await worker.post("/v1/chat/completions", json=body)).status_code,
        ]
        metrics = (await worker.get("/metrics")).text

    assert [200, 200] == statuses
    assert f"{metric}{{" in metrics
    assert "process_start_time_seconds" in metrics


async def test_the_old_metrics_of_vllm() -> None:
    """They are an option."""
    options = SimulatorOptions(port=0, speed=0, old_metrics=True)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as worker:
        assert "vllm:gpu_cache_usage_perc" in (await worker.get("/metrics")).text
