from typing import Any

import pytest

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions


def test_the_defaults() -> None:
    options = SimulatorOptions()

    assert ("tiny", 18101, 2048, 16) == (options.model, options.port, options.blocks, options.block_size)
    assert (10_000, 12, 1) == (options.prefill_tokens_per_s, options.tpot_ms, options.speed)
    assert 32_768 == options.context_tokens


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"port": 70_000}, "port must be 0 to 65535, got 70000"),
        ({"blocks": 0}, "blocks must be at least 1, got 0"),
        ({"stream_interval": 0}, "stream_interval must be at least 1, got 0"),
        ({"tpot_ms": 0}, "tpot_ms must be above 0, got 0"),
        ({"prefill_tokens_per_s": float("nan")}, "prefill_tokens_per_s must be above 0, got nan"),
        ({"speed": -1}, "speed must not be negative, got -1"),
        ({"dialect": "x"}, "dialect must be vllm, sglang or dynamo, got x"),
        ({"dialect": "sglang", "old_metrics": True}, "old_metrics requires dialect vllm, got sglang"),
        ({"health_delay_s": -1}, "health_delay_s must be finite and not negative, got -1"),
        ({"shutdown_timeout_s": float("inf")}, "shutdown_timeout_s must be finite and not negative, got inf"),
        ({"dialect": "sglang", "enable_scale_out": True}, "enable_scale_out requires dialect vllm, got sglang"),
        (
            {"dialect": "dynamo", "kv_events": EventOptions(format="array")},
            "kv_events.format must be map if the dialect is dynamo, got array",
        ),
        (
            {"dialect": "dynamo", "lora_modules": ("a",)},
            "lora_modules requires dialect vllm or sglang, got dynamo",
        ),
        ({"lora_modules": ("a", "tiny")}, "lora_modules must have unique names, got a, tiny"),
        ({"lora_modules": ("a", "a")}, "lora_modules must have unique names, got a, a"),
        ({"host_blocks": -1}, "host_blocks must not be negative, got -1"),
        ({"host_blocks": 1, "dialect": "sglang"}, "host_blocks requires dialect vllm, got sglang"),
        ({"host_blocks": 1, "role": "prefill"}, "host_blocks requires role both, got prefill"),
        ({"load_tokens_per_s": 0}, "load_tokens_per_s must be above 0, got 0"),
        ({"load_ms": -1}, "load_ms must be finite and not negative, got -1"),
        ({"timing": "x"}, "timing must be chunked or fifo, got x"),
        ({"max_num_batched_tokens": 8}, "max_num_batched_tokens must be at least max_num_seqs, got 8"),
        ({"max_model_len": 99_999}, r"max_model_len must be between 2 and blocks \* block_size, got 99999"),
    ],
)
def test_a_bad_option_is_named(wrong: dict[str, Any], message: str) -> None:
    """The error reports the option and the value."""
    with pytest.raises(ValueError, match=message):
        SimulatorOptions(**wrong)


@pytest.mark.parametrize("timing", ["fifo", "chunked"])
def test_both_timings_can_be_built(timing: Any) -> None:
    """Each is an idle engine."""
    options = SimulatorOptions(timing=timing)

    assert None is options.build_engine(options.build_pool()).next_event_at()


def test_a_host_tier_is_an_option() -> None:
    """A worker has no host tier by default."""
    host = SimulatorOptions(host_blocks=7, load_ms=4, load_tokens_per_s=1000).build_pool().host

    assert SimulatorOptions().build_pool().host is None
    assert host is not None
    assert 7 == host.capacity

    host.store("a")

    assert 0.02 == pytest.approx(host.begin_load("a", 16, 0.0))
