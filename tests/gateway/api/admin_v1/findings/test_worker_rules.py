"""Each rule as a table: what is known of a worker, and what is found."""

from typing import Any

import pytest

from gateway.api.admin_v1.findings.worker_rules import findings_of
from gateway.api.admin_v1.gateway_facts import CheckFacts, ModelFacts, StreamFacts, WorkerFacts

LIVE = {"state": "live", "has_replay": True}
SOUND: dict[str, Any] = {
    "id": "w1",
    "state": "up",
    "engine": "vllm",
    "prefix_caching": True,
    "block_size": 16,
    "event_block_size": 16,
    "capacity_blocks": 1000,
    "held_blocks": 900,
    "hit_accuracy": 0.99,
    "requests": 500,
    "streams": 50,
    "streams_at_once": 1,
    "followed_s": 1000.0,
}

Found = list[tuple[str, str]]


def found(*, stream: dict[str, Any] | None, check: dict[str, Any] | None = None, **changes: Any) -> Found:
    worker = WorkerFacts(
        **{
            **SOUND,
            **changes,
            "stream": None if stream is None else StreamFacts(**{**LIVE, **stream}),
            "check": CheckFacts(**{"verdict": "agrees", **(check or {})}),
        }
    )
    model = ModelFacts(name="tiny", strategy="kv_aware", uses_events=True, workers=(worker,))
    findings = findings_of(model, worker)
    assert {("tiny", "w1")} >= {(each.model, each.worker) for each in findings}
    return [(each.severity, each.code) for each in findings]


@pytest.mark.parametrize(
    ("stream", "changes", "expected"),
    [
        ({}, {}, []),
        ({}, {"state": "down"}, [("error", "worker-unavailable")]),
        ({}, {"state": "draining"}, []),
        (None, {"state": None, "fault": "GET /v1/models was refused"}, [("error", "worker-unavailable")]),
        ({}, {"prefix_caching": False}, [("error", "prefix-caching-off")]),
        ({}, {"prefix_caching": None}, []),
        ({}, {"event_block_size": 32}, [("error", "wrong-block-size")]),
        ({}, {"event_block_size": None}, []),
        ({}, {"hit_alarm": True}, [("error", "inaccurate-predictions")]),
        ({"doubt": "inaccurate"}, {}, [("error", "inaccurate-predictions")]),
        ({"doubt": "lost"}, {"hit_alarm": True}, [("warning", "lost-events")]),
        ({}, {"ttft_error": 0.49, "ttft_bias": 0.49}, []),
        ({}, {"ttft_error": 0.5, "ttft_bias": -0.2}, [("warning", "inaccurate-ttft")]),
        ({}, {"ttft_error": 0.5, "hit_alarm": True}, [("error", "inaccurate-predictions")]),
    ],
)
def test_what_the_state_of_a_worker_shows(
    stream: dict[str, Any] | None, changes: dict[str, Any], expected: Found
) -> None:
    assert expected == found(stream=stream, **changes)


@pytest.mark.parametrize(
    ("stream", "changes", "expected"),
    [
        ({}, {"held_blocks": 1021}, []),
        ({}, {"held_blocks": 1022}, [("error", "wrong-capacity")]),
        ({"removed_blocks": 31}, {"held_blocks": 400}, []),
        ({"removed_blocks": 32}, {"held_blocks": 400}, [("error", "wrong-capacity")]),
        ({"removed_blocks": 32}, {"held_blocks": 500}, []),
        ({"removed_blocks": 32, "resets": 1}, {"held_blocks": 400}, []),
        ({"removed_blocks": 32, "has_other_groups": True}, {"held_blocks": 400}, []),
        ({"removed_blocks": 32, "state": "stale"}, {"held_blocks": 400}, []),
        ({"removed_blocks": 50_000}, {}, [("warning", "early-eviction")]),
        ({"removed_blocks": 20_000}, {}, []),
    ],
)
def test_what_the_size_of_a_cache_shows(stream: dict[str, Any], changes: dict[str, Any], expected: Found) -> None:
    """1000 blocks by its metrics; 900 held blocks, seen for 1000 s, unless a row says otherwise."""
    assert expected == found(stream=stream, **changes)


@pytest.mark.parametrize(
    ("stream", "changes", "expected"),
    [
        (None, {}, [("warning", "no-kv-events")]),
        (None, {"role": "decode"}, []),
        (None, {"state": "down"}, [("error", "worker-unavailable")]),
        ({"doubt": "not_connected"}, {}, [("error", "kv-events-unreachable")]),
        ({}, {"check": {"verdict": "topic"}}, [("warning", "no-kv-events")]),
        ({"has_replay": False}, {}, [("warning", "no-replay-endpoint")]),
        ({"has_replay": False, "doubt": "unreplayed"}, {}, [("warning", "no-replay-endpoint")]),
        ({"has_replay": None}, {}, []),
        ({"lost_batches": 2}, {}, [("info", "lost-events")]),
        ({"doubt": "partial"}, {}, [("info", "incomplete-events")]),
        ({"doubt": "unreplayed"}, {}, [("info", "incomplete-events")]),
        ({"doubt": "undecodable", "undecodable_batches": 3}, {}, [("error", "undecodable-events")]),
        ({"lag_s": -0.9}, {}, []),
        ({"lag_s": -1.5}, {}, [("warning", "clock-skew")]),
        ({"lag_s": 10.0}, {}, []),
        ({"lag_s": 11.0}, {}, [("warning", "clock-skew")]),
        ({}, {"clock_ahead_s": -6.0}, [("warning", "clock-skew")]),
        ({}, {"clock_ahead_s": 4.0}, []),
    ],
)
def test_what_kv_events_show(stream: dict[str, Any] | None, changes: dict[str, Any], expected: Found) -> None:
    assert expected == found(stream=stream, **changes)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"verdict": "agrees"}, []),
        ({"verdict": "unknown"}, []),
        ({"verdict": "tokens"}, [("error", "wrong-tokenizer")]),
        ({"verdict": "prefix"}, [("error", "wrong-tokenizer")]),
        ({"differing": ("chat", "text")}, [("error", "wrong-tokenizer")]),
        ({"differing": ("tools",)}, [("warning", "wrong-tokenizer")]),
        ({"verdict": "block_size"}, [("error", "wrong-block-size")]),
        ({"verdict": "model"}, [("error", "wrong-upstream-model")]),
        ({"verdict": "salt"}, [("error", "wrong-salt")]),
        ({"verdict": "cached_tokens"}, [("error", "untrue-hits")]),
    ],
)
def test_what_the_start_checks_show(check: dict[str, Any], expected: Found) -> None:
    assert expected == found(stream={}, check=check)


@pytest.mark.parametrize(
    ("streams", "at_once", "expected"),
    [(4, 4, []), (5, 5, [("error", "buffered-streams")]), (50, 39, []), (50, 40, [("error", "buffered-streams")])],
)
def test_streams_that_arrive_at_once_were_buffered(streams: int, at_once: int, expected: Found) -> None:
    """Enough of them, and most."""
    assert expected == found(stream={}, streams=streams, streams_at_once=at_once)
