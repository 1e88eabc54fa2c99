"""Facts about what SGLang reports in JSON."""

import pytest

from gateway.backends.engine_metrics import EngineKind, EngineReading
from gateway.backends.sglang_loads import CacheRoom, parse_loads, parse_server_info

RANK = (
    b'{"dp_rank":0,"num_running_reqs":5,"num_waiting_reqs":1,"num_waiting_uncached_tokens":40,"num_used_tokens":32768,'
    b'"num_total_tokens":33000,"max_total_num_tokens":65536,"max_running_requests":256,"token_usage":0.5,'
    b'"gen_throughput":100.5,"cache_hit_rate":0.25,"utilization":0.0}'
)


def loads(*ranks: bytes) -> bytes:
    return b'{"timestamp":"2026-11-20T09:15:23+00:00","version":"0.5.23","loads":[' + b",".join(ranks) + b"]}"


def test_loads_are_a_reading() -> None:
    """Requests, the share of the cache in use, and its size; of pages they do not speak."""
    assert EngineReading(EngineKind.SGLANG, running=5.0, waiting=1.0, kv_usage=0.5, cache_tokens=65536) == parse_loads(
        loads(RANK)
    )


def test_ranks_are_taken_together() -> None:
    """Requests and room add up, shares are averaged; beside it stands what each reports."""
    second = RANK.replace(b'"token_usage":0.5', b'"token_usage":0.0').replace(b'_reqs":5', b'_reqs":1')
    second = second.replace(b'"dp_rank":0', b'"dp_rank":1')

    assert EngineReading(
        EngineKind.SGLANG,
        running=6.0,
        waiting=2.0,
        kv_usage=0.25,
        cache_tokens=131072,
        places={
            (None, 0): EngineReading(EngineKind.SGLANG, running=5.0, waiting=1.0, kv_usage=0.5, cache_tokens=65536),
            (None, 1): EngineReading(EngineKind.SGLANG, running=1.0, waiting=1.0, kv_usage=0.0, cache_tokens=65536),
        },
    ) == parse_loads(loads(RANK, second))


def test_the_least_that_is_reported_will_do() -> None:
    assert EngineReading(EngineKind.SGLANG, running=0.0, waiting=0.0) == parse_loads(
        loads(b'{"num_running_reqs":0,"num_waiting_reqs":0}')
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b"\xff",
        b'{"loads":null}',
        loads(),
        loads(b"{}"),
        loads(b"3"),
        loads(b'{"num_running_reqs":-1,"num_waiting_reqs":0}'),
        loads(b'{"num_running_reqs":"many","num_waiting_reqs":0}'),
        loads(RANK)[:-10],
        b'{"x":' + b"[" * 100_000,
        loads(*[RANK] * 1025),
    ],
)
def test_other_answers_are_not_sglangs(body: bytes) -> None:
    assert parse_loads(body) is None


def test_the_server_reports_its_pages() -> None:
    """Among all its arguments; the tokens are those of one rank."""
    assert CacheRoom(65536, 64, 65536) == parse_server_info(
        b'{"model_path":"tiny","page_size":64,"dp_size":1,"max_total_num_tokens":65536,"internal_states":[{}]}'
    )
    assert CacheRoom(131072, 1, 65536) == parse_server_info(b'{"page_size":1,"dp_size":2,"max_total_num_tokens":65536}')


@pytest.mark.parametrize("body", [b"", b"{}", b"[" * 100_000, b'{"page_size":"x"}', b'{"page_size":0}', b"null"])
def test_a_server_need_not_tell(body: bytes) -> None:
    """Nothing follows from it."""
    assert CacheRoom() == parse_server_info(body)
