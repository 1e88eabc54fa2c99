from prometheus_client.parser import text_string_to_metric_families

from gateway.simulator.engine import EngineLoad
from gateway.simulator.exposition import Exposition

LOAD = EngineLoad(
    running=3,
    waiting=2,
    kv_usage=0.25,
    prefix_query_tokens=100,
    prefix_hit_tokens=48,
    prompt_tokens=90,
    generation_tokens=70,
    preemptions=1,
)


def samples() -> dict[str, tuple[dict[str, str], float]]:
    cache_config = {"block_size": "16", "num_gpu_blocks": "2048"}
    exposition = Exposition("tiny", lambda: LOAD, cache_config=cache_config, started_at=1000.5)
    exposition.first_token(0.07)
    exposition.finished("stop")
    families = text_string_to_metric_families(exposition.render().decode())
    seen = {}
    for family in families:
        for sample in family.samples:
            if sample.labels.get("finished_reason", "stop") == "stop":
                seen[sample.name] = (dict(sample.labels), sample.value)
    return seen


def test_names_and_values_are_those_of_vllm() -> None:
    """Gauges and counters of one engine, by model and data-parallel rank."""
    seen = samples()
    engine = {"model_name": "tiny", "engine": "0"}
    expected = {
        "vllm:num_requests_running": 3,
        "vllm:num_requests_waiting": 2,
        "vllm:kv_cache_usage_perc": 0.25,
        "vllm:prefix_cache_queries_total": 100,
        "vllm:prefix_cache_hits_total": 48,
        "vllm:prompt_tokens_total": 90,
        "vllm:generation_tokens_total": 70,
        "vllm:num_preemptions_total": 1,
        "vllm:time_to_first_token_seconds_count": 1,
        "vllm:time_to_first_token_seconds_sum": 0.07,
    }

    assert {name: (engine, value) for name, value in expected.items()} == {name: seen[name] for name in expected}
    assert 1 == seen["vllm:request_success_total"][1]
    assert 1000.5 == seen["process_start_time_seconds"][1]


def test_the_cache_is_described_by_labels() -> None:
    """Block size and number of blocks are where a router looks for them."""
    labels = {"block_size": "16", "num_gpu_blocks": "2048", "engine": "0"}

    assert (labels, 1) == samples()["vllm:cache_config_info"]
