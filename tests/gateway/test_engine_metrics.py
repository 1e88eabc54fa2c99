"""What an engine tells of itself."""

import pytest

from gateway.engine_metrics import EngineFacts

VLLM = """\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.76722560025e+09
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="2048",swap_space="4"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
"""


def test_vllm_tells_its_cache_and_its_beginning() -> None:
    """Blocks, tokens per block, and the second at which the process began."""
    assert EngineFacts(blocks=2048, block_size=16, started_at=1_767_225_600.25) == EngineFacts.parse(VLLM)


def test_a_process_with_labels_has_a_beginning_too() -> None:
    """Some exporters add labels to every sample."""
    assert EngineFacts(started_at=7.0) == EngineFacts.parse('process_start_time_seconds{job="x"} 7\n')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>no metrics here</html>",
        "\x00\xff",
        "# vllm:cache_config_info{}",
        "vllm:cache_config_info{} 1",
        "vllm:cache_config_info 1",
        "process_start_time_seconds",
        "process_start_time_seconds abc",
        "process_start_time_seconds NaN",
        "process_start_time_seconds +Inf",
        "x_process_start_time_seconds 1",
    ],
)
def test_foreign_text_yields_no_facts(text: str) -> None:
    """Whatever stands at that address, it is not a reason to fail."""
    assert EngineFacts() == EngineFacts.parse(text)


@pytest.mark.parametrize("blocks", ["None", "0", "-1", "1.5", "²", "9" * 5000, ""])
def test_a_number_that_cannot_be_is_not_told(blocks: str) -> None:
    """Engines write None before they know; the rest would be nonsense in a sum."""
    text = f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1.0'

    assert EngineFacts(block_size=16) == EngineFacts.parse(text)


def test_braces_and_quotes_in_labels_do_no_harm() -> None:
    """Label values may hold anything, escaped."""
    text = 'vllm:cache_config_info{a="}, num_gpu_blocks=\\"7\\"",num_gpu_blocks="9"} 1.0'

    assert EngineFacts(blocks=9) == EngineFacts.parse(text)
