"""Facts about what engines reports themselves at /metrics."""

import string
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.backends.engine_metrics import EngineKind, EngineReading, MetricsPage, Observation

VLLM = """\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.76722560025e+09
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
# TYPE vllm:engine_sleep_state gauge
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="weights_offloaded"} 0.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="discard_all"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="tiny"} 1234.0
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{engine="0",model_name="tiny"} 1.767e+09
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="2048",swap_space="4"} 1.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="tiny"} 0.0
"""

SGLANG = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 5.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 1.0
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="tiny",tp_rank="0"} 0.75
# TYPE sglang:full_token_usage gauge
sglang:full_token_usage{engine_type="unified",model_name="tiny",tp_rank="0"} 0.5
# TYPE sglang:max_total_num_tokens gauge
sglang:max_total_num_tokens{engine_type="unified",model_name="tiny",tp_rank="0"} 65536.0
# TYPE sglang:page_size gauge
sglang:page_size{engine_type="unified",model_name="tiny",tp_rank="0"} 64.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="tiny"} 900.0
# TYPE sglang:realtime_tokens_total counter
sglang:realtime_tokens_total{engine_type="unified",mode="prefill_compute",model_name="tiny",tp_rank="0"} 5000.0
sglang:realtime_tokens_total{engine_type="unified",mode="decode",model_name="tiny",tp_rank="0"} 1000.0
"""

DYNAMO = """\
# TYPE dynamo_frontend_inflight_requests gauge
dynamo_frontend_inflight_requests{model="tiny"} 7
# TYPE dynamo_frontend_queued_requests gauge
dynamo_frontend_queued_requests{model="tiny"} 2
# TYPE dynamo_frontend_model_total_kv_blocks gauge
dynamo_frontend_model_total_kv_blocks{model="tiny"} 100
# TYPE dynamo_frontend_model_kv_cache_block_size gauge
dynamo_frontend_model_kv_cache_block_size{model="tiny"} 16
# TYPE dynamo_frontend_worker_active_decode_blocks gauge
dynamo_frontend_worker_active_decode_blocks{dp_rank="0",worker_id="7587888160958628000",worker_type="decode"} 30
dynamo_frontend_worker_active_decode_blocks{dp_rank="0",worker_id="7587888160958628001",worker_type="decode"} 20
# TYPE dynamo_frontend_output_tokens_total counter
dynamo_frontend_output_tokens_total{model="tiny"} 77
"""


def read(text: str | bytes, *, piece: int = 65536) -> EngineReading | None:
    raw = text.encode() if isinstance(text, str) else text
    page = MetricsPage()
    for start in range(0, len(raw), piece):
        page.feed(raw[start : start + piece])
    return page.reading()


def of(text: str) -> EngineReading:
    reading = read(text)
    assert reading is not None
    return reading


# ---- vLLM


def test_vllm_reports_its_load_its_cache_and_its_beginning() -> None:
    """2,048 blocks of 16 tokens, a quarter of them in use; the second at which the process began."""
    assert EngineReading(
        EngineKind.VLLM,
        running=3.0,
        waiting=2.0,
        kv_usage=0.25,
        is_asleep=False,
        generated=1234.0,
        cache_tokens=32768,
        block_size=16,
        started_at=1_767_225_600.25,
    ) == read(VLLM)


def test_the_old_name_of_kv_usage_is_known() -> None:
    """Versions up to 0.10 have it; 0.10.2 has both, and they are not added."""
    old = 'vllm:gpu_cache_usage_perc{engine="0"} 0.5\n'

    assert 0.5 == of(old).kv_usage
    assert 0.25 == of(VLLM + old).kv_usage


def test_the_ranks_of_one_worker_are_taken_together() -> None:
    """Requests and room add up, shares are averaged: behind one address any rank may answer."""
    second = VLLM.replace('engine="0"', 'engine="1"').replace("} 3.0", "} 4.0").replace("} 0.25", "} 0.75")
    reading = of(VLLM + second)

    assert (7.0, 4.0, 0.5) == (reading.running, reading.waiting, reading.kv_usage)
    assert (65536, 16) == (reading.cache_tokens, reading.block_size)


@pytest.mark.parametrize("state", ["weights_offloaded", "discard_all"])
def test_either_kind_of_sleep_is_seen(state: str) -> None:
    """Level 1 keeps the weights in memory of the host, level 2 nowhere."""
    asleep = VLLM.replace('"awake"} 1.0', '"awake"} 0.0').replace(f'"{state}"}} 0.0', f'"{state}"}} 1.0')

    assert of(asleep).is_asleep


def test_an_engine_that_is_not_awake_is_asleep() -> None:
    """A paused engine is in none of the states."""
    assert of(VLLM.replace('"awake"} 1.0', '"awake"} 0.0')).is_asleep


def test_one_rank_that_sleeps_is_enough() -> None:
    """A request may come to that one."""
    assert of(VLLM + 'vllm:engine_sleep_state{engine="1",sleep_state="awake"} 0.0\n').is_asleep


def test_an_engine_without_sleep_does_not_tell() -> None:
    """None, neither yes nor no."""
    assert of('vllm:num_requests_running{engine="0"} 3.0\n').is_asleep is None


@pytest.mark.parametrize("blocks", ["None", "0", "-1", "1.5", "²", "9" * 5000, ""])
def test_a_number_that_cannot_be_is_not_reported(blocks: str) -> None:
    """Engines write None before they know; the rest would be nonsense in a sum."""
    text = f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1.0'

    assert EngineReading(EngineKind.VLLM, block_size=16) == read(text)


@pytest.mark.parametrize(("label", "expected"), [("True", True), ("False", False), ("None", None), ("yes", None)])
def test_vllm_says_whether_prefixes_are_cached(label: str, expected: bool | None) -> None:
    """Label of its cache configuration; versions without it say nothing."""
    assert (
        expected == of(f'vllm:cache_config_info{{block_size="16",enable_prefix_caching="{label}"}} 1.0').prefix_caching
    )
    assert None is of('vllm:cache_config_info{block_size="16"} 1.0').prefix_caching


def test_braces_and_quotes_in_labels_do_no_harm() -> None:
    """Label values may hold anything, escaped."""
    text = 'vllm:cache_config_info{a="}, num_gpu_blocks=\\"7\\"",num_gpu_blocks="9",block_size="2"} 1.0'

    assert 18 == of(text).cache_tokens


def test_generated_tokens_are_counted_over_all_ranks_and_for_each() -> None:
    """A stream is one rank's, and its address is everybody's."""
    second = VLLM.replace('engine="0"', 'engine="1"').replace("} 1234.0", "} 66.0")
    whole = of(VLLM + second)

    assert (1300.0, 66.0) == (whole.generated, whole.of(None, 1).generated)


# ---- SGLang


def test_sglang_reports_its_load_and_its_cache() -> None:
    """65,536 tokens in pages of 64; the usage is that of the cache in which prefixes live."""
    assert EngineReading(
        EngineKind.SGLANG, running=5.0, waiting=1.0, kv_usage=0.5, generated=1000.0, cache_tokens=65536, block_size=64
    ) == read(SGLANG)


def test_a_count_of_requests_that_have_ended_is_not_taken_for_progress() -> None:
    """Versions of SGLang that count only those do not say whether they generate."""
    old = "\n".join(line for line in SGLANG.splitlines() if "realtime_tokens" not in line)

    assert of(old).generated is None


def test_older_sglang_has_one_usage() -> None:
    """`token_usage` stands for it where `full_token_usage` is missing."""
    assert 0.75 == of(SGLANG.replace("sglang:full_token_usage{", "sglang:other{")).kv_usage


def test_processes_that_share_a_cache_count_once() -> None:
    """Each tensor-parallel rank may tell the same; a data-parallel rank has its own requests and cache."""
    tensor = of(SGLANG + SGLANG.replace('tp_rank="0"', 'tp_rank="1"'))
    data = of(SGLANG + SGLANG.replace('tp_rank="0"', 'tp_rank="0",dp_rank="1"'))

    assert (5.0, 65536, 64) == (tensor.running, tensor.cache_tokens, tensor.block_size)
    assert (10.0, 131072, 64) == (data.running, data.cache_tokens, data.block_size)


def test_each_rank_of_an_engine_is_reported_apart() -> None:
    """What both tell together, and what each reports; of a rank that is not there, only when the process began."""
    page = VLLM + VLLM.replace('engine="0"', 'engine="1"').replace('model_name="tiny"} 3.0', 'model_name="tiny"} 1.0')
    whole, alone = of(page), of(VLLM)

    assert (4.0, 4.0) == (whole.running, whole.waiting)
    assert [alone, replace(alone, running=1.0)] == [whole.of(None, rank) for rank in (0, 1)]
    assert EngineReading(EngineKind.VLLM, started_at=alone.started_at) == whole.of(None, 2)
    assert {} == alone.places


# ---- Dynamo


def test_a_dynamo_frontend_speaks_for_its_workers() -> None:
    """Seven inside of which two wait; 50 of 200 blocks on two workers."""
    each = EngineReading(EngineKind.DYNAMO, cache_tokens=1600, block_size=16)

    assert EngineReading(
        EngineKind.DYNAMO,
        running=5.0,
        waiting=2.0,
        kv_usage=0.25,
        generated=77.0,
        cache_tokens=3200,
        block_size=16,
        places={
            (None, 0): each,
            ("7587888160958628000", 0): replace(each, kv_usage=0.3),
            ("7587888160958628001", 0): replace(each, kv_usage=0.2),
        },
    ) == read(DYNAMO)


def test_of_a_worker_that_has_served_nothing_a_frontend_reports_the_room() -> None:
    """It is that of all others; of another rank nothing is known."""
    whole = of(DYNAMO)

    assert EngineReading(EngineKind.DYNAMO, cache_tokens=1600, block_size=16) == whole.of("77", None)
    assert EngineReading(EngineKind.DYNAMO) == whole.of("77", 1)


def test_a_frontend_of_several_models_does_not_tell_its_cache() -> None:
    """The blocks in use do not say of which model they are."""
    reading = of(DYNAMO + DYNAMO.replace('"tiny"', '"big"'))

    assert (10.0, None, None, None) == (reading.running, reading.kv_usage, reading.cache_tokens, reading.block_size)


def test_a_frontend_that_has_served_nothing_is_known_for_one() -> None:
    """Its gauges begin with the first request."""
    assert EngineReading(EngineKind.DYNAMO) == read("dynamo_frontend_disconnected_clients 0\n")


# ---- whatever else there may be


def test_a_process_with_labels_has_a_beginning_too() -> None:
    """Some exporters add labels to every sample."""
    assert EngineReading(started_at=7.0) == read('process_start_time_seconds{job="x"} 7\n')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>no metrics here</html>",
        "\x00\xff",
        "# vllm:cache_config_info{}",
        "process_start_time_seconds",
        "process_start_time_seconds abc",
        "process_start_time_seconds NaN",
        "process_start_time_seconds +Inf",
        "x_process_start_time_seconds 1",
        "process_start_time_seconds_max 1",
    ],
)
def test_foreign_text_is_no_reading(text: str) -> None:
    """Whatever stands at that address, it is not a reason to fail."""
    assert read(text) is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "abc", "", "1_000"])
def test_a_broken_value_is_not_reported(value: str) -> None:
    broken = VLLM.replace(
        'vllm:num_requests_running{engine="0",model_name="tiny"} 3.0', f"vllm:num_requests_running {value}"
    )
    reading = of(broken)

    assert (None, 2.0) == (reading.running, reading.waiting)


def test_a_share_is_no_more_than_all() -> None:
    """Rounding may bring an engine over one."""
    assert 1.0 == of("vllm:kv_cache_usage_perc 1.02").kv_usage


@given(piece=st.integers(1, 200), crlf=st.booleans())
@example(piece=1, crlf=True)
def test_the_cutting_into_pieces_changes_nothing(piece: int, crlf: bool) -> None:
    """A page comes as the network cuts it; a last line without its end counts."""
    text = VLLM.rstrip("\n")

    assert read(VLLM) == read(text.replace("\n", "\r\n") if crlf else text, piece=piece)


@given(
    st.lists(st.text(string.printable, max_size=40).map(lambda text: f"vllm:num_requests_running{text}\n"), max_size=5)
)
@example(['vllm:num_requests_running{a="x" 3\n'])
@example(["vllm:num_requests_running{} 1 # {\n"])
@example(["vllm:num_requests_running" + "{" * 2000 + "\n"])
def test_no_text_makes_it_fail(lines: list[str]) -> None:
    """Numbers that come out of it are finite and not negative."""
    reading = read("".join(lines))

    assert reading is None or reading.running is None or 0 <= reading.running < float("inf")


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(raw: bytes) -> None:
    """Not in names, labels or values."""
    read(b"sglang:num_running_reqs" + raw + b"\nvllm:cache_config_info{" + raw + b"} 1\n" + raw)


def test_a_line_without_end_is_not_collected() -> None:
    """Megabytes of it are forgotten as they come; the next line counts."""
    page = MetricsPage()
    for _ in range(100):
        page.feed(b"vllm:num_requests_running{" * 2500)
        assert len(page._rest) <= 16 * 1024
    page.feed(b"\nvllm:num_requests_waiting 2\n")

    assert EngineReading(EngineKind.VLLM, waiting=2.0) == page.reading()


def test_of_very_many_lines_the_first_are_read() -> None:
    """Ten thousand ranks would hold the event loop for a second."""
    lines = "".join(f'vllm:num_requests_running{{engine="{rank}"}} 1\n' for rank in range(10_000))

    assert 640.0 == of(lines).running


# ---- age


def test_an_observation_grows_old() -> None:
    """After its time it is not shown any more; a clock that stands still does no harm."""
    observation = Observation(EngineReading(), read_at=100.0, kept_s=20.0)

    assert [0.0, 20.0, 20.5] == [observation.age_s(now) for now in (100.0, 120.0, 120.5)]
    assert [False, False, True] == [observation.is_stale(now) for now in (100.0, 120.0, 120.5)]


def test_adapters_are_those_that_were_reported_of_last() -> None:
    """vLLM puts names into labels and the time into the value, and what it reported before stays on the page."""
    page = MetricsPage()
    page.feed(
        b'vllm:lora_requests_info{max_lora="4",running_lora_adapters="poet,clerk",waiting_lora_adapters=""} 1000.0\n'
        b'vllm:lora_requests_info{max_lora="4",running_lora_adapters="clerk",waiting_lora_adapters="bard,clerk"} 2e3\n'
    )
    reading = page.reading()

    assert reading is not None
    assert ("clerk", "bard") == reading.adapters


def test_an_engine_without_adapters_reports_of_none() -> None:
    page = MetricsPage()
    page.feed(VLLM.encode())
    reading = page.reading()

    assert reading is not None
    assert () == reading.adapters
