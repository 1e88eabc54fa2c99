"""Rules about models, teams, the store and the gateway, as tables."""

from typing import Any

import pytest

from gateway.api.admin_v1.findings.rules import diagnosed
from gateway.api.admin_v1.gateway_facts import (
    CheckFacts,
    FallbackFacts,
    GatewayFacts,
    ModelFacts,
    StoreFacts,
    TeamFacts,
    WorkerFacts,
)

DAY_S = 86_400.0
Found = list[tuple[str, str, str]]


def found(**facts: Any) -> Found:
    return [(each.severity, each.code, each.concerns) for each in diagnosed(GatewayFacts(**facts))]


def of_model(*workers: WorkerFacts, **changes: Any) -> Found:
    return found(models=(ModelFacts(**{"name": "tiny", "strategy": "prefix_aware", "workers": workers, **changes}),))


def workers(*changes: dict[str, Any]) -> list[WorkerFacts]:
    return [WorkerFacts(**{"id": f"w{number}", "state": "up", **each}) for number, each in enumerate(changes)]


def hashed(*hashes: str | None, **more: Any) -> list[WorkerFacts]:
    """Workers whose engines hash a common block so."""
    checks = [CheckFacts(verdict="agrees", block_hash=each) for each in hashes]
    return workers(*({"engine": "vllm", "check": check, **more} for check in checks))


def test_nothing_is_found_without_facts() -> None:
    assert [] == found()


def test_the_most_severe_comes_first() -> None:
    expected = [
        ("error", "model-not-ready", "model b"),
        ("warning", "round-robin-configured", "model a"),
        ("warning", "key-without-limits", "team red"),
    ]

    assert expected == found(
        models=(
            ModelFacts(name="a", strategy="round_robin", may_find_workers=True),
            ModelFacts(name="b", strategy="prefix_aware", not_ready="there are no workers yet"),
        ),
        teams=(TeamFacts(name="red", keys=1, unlimited_keys=("k",)),),
        store=StoreFacts(kind="file", state="ready"),
    )


@pytest.mark.parametrize(
    ("count", "strategy", "expected"),
    [
        (1, "round_robin", []),
        (2, "round_robin", [("warning", "round-robin-configured", "model tiny")]),
        (2, "prefix_aware", []),
        (2, "least_loaded", []),
    ],
)
def test_round_robin_matters_with_several_workers(count: int, strategy: str, expected: Found) -> None:
    assert expected == of_model(*workers(*({} for _ in range(count))), strategy=strategy)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([16, 16], []),
        ([16, None], []),
        ([16, 32, 16], ["w1"]),
        ([32, 16, 16, 64], ["w0", "w3"]),
    ],
)
def test_a_block_size_unlike_that_of_most_workers(sizes: list[int | None], expected: list[str]) -> None:
    assert [("error", "wrong-block-size", f"model tiny, worker {name}") for name in expected] == of_model(
        *workers(*({"block_size": size} for size in sizes))
    )


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (hashed("a", "a"), []),
        (hashed("a", None), []),
        (hashed("a", "b", "a"), [("warning", "hash-seeds-differ", "model tiny, worker w1")]),
        (hashed("a", "b", "c"), [("info", "hash-seeds-differ", "model tiny")]),
        (hashed("a", "b", shared_blocks=1), [("warning", "hash-seeds-differ", "model tiny")]),
    ],
)
def test_engines_with_other_hashes(there: list[WorkerFacts], expected: Found) -> None:
    """A single one that differs lacks the seed; if all differ, none is set, which only shared stores notice."""
    assert expected == of_model(*there)


def test_engines_of_two_kinds_are_not_compared() -> None:
    there = [
        *hashed("a", "a"),
        WorkerFacts(id="s", engine="sglang", check=CheckFacts(verdict="agrees", block_hash="b")),
    ]

    assert [] == of_model(*there)


@pytest.mark.parametrize(("requests", "short", "is_found"), [(19, 19, False), (20, 18, True), (100, 89, False)])
def test_prompts_under_one_block(requests: int, short: int, is_found: bool) -> None:
    expected = [("warning", "prompts-under-one-block", "model tiny")] if is_found else []

    assert expected == of_model(requests=requests, short_prompts=short)


@pytest.mark.parametrize(
    ("requests", "backlog_s", "expected"),
    [
        ([100, 90], 0.0, []),
        ([150, 10], 0.0, []),
        ([190, 10, 10], 0.0, ["info"]),
        ([190, 10, 10], 5.0, ["warning"]),
        ([500], 5.0, []),
    ],
)
def test_one_worker_answers_almost_everything(requests: list[int], backlog_s: float, expected: list[str]) -> None:
    there = workers(*({"requests": count, "backlog_s": backlog_s if count > 100 else 0.0} for count in requests))

    assert [(severity, "uneven-traffic", "model tiny, worker w0") for severity in expected] == of_model(*there)


@pytest.mark.parametrize(
    ("fallback", "expected"),
    [
        ({"is_ok": True, "age_s": 3 * DAY_S, "every_s": 7 * DAY_S}, []),
        ({"is_ok": None, "every_s": 7 * DAY_S}, []),
        ({"is_ok": False, "age_s": 5.0, "every_s": 7 * DAY_S}, [("error", "failed-canary")]),
        ({"is_ok": True, "age_s": 15 * DAY_S, "every_s": 7 * DAY_S}, [("warning", "expired-canary")]),
        ({"is_ok": True, "age_s": 31 * DAY_S, "every_s": None}, [("warning", "expired-canary")]),
        ({"is_ok": True, "age_s": 5.0, "every_s": None}, [("warning", "expired-canary")]),
        ({"every_s": 31 * DAY_S}, [("warning", "expired-canary")]),
        ({"is_ok": True, "age_s": 5.0, "every_s": 60.0, "is_legacy": True}, [("warning", "legacy-fallback")]),
    ],
)
def test_test_requests_of_fallbacks(fallback: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    facts = FallbackFacts(id="bedrock:m", **fallback)

    assert [(*each, "model tiny, fallback bedrock:m") for each in expected] == of_model(fallbacks=(facts,))


def test_a_tokenizer_that_was_not_loaded() -> None:
    assert [("error", "tokenizer-not-loaded", "model tiny")] == of_model(is_tokenizer_missing=True)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"teams": (TeamFacts(name="blue", keys=1),)}, [("warning", "no-store")]),
        ({"teams": (TeamFacts(name="blue"),), "store": StoreFacts(kind="file", state="ready")}, []),
        ({"store": StoreFacts(kind="redis", state="ready")}, []),
        ({"store": StoreFacts(kind="redis", state="away", fault="timed out")}, [("error", "store-unavailable")]),
        ({"store": StoreFacts(kind="redis", state="pepper_differs")}, [("error", "store-unavailable")]),
        ({"store": StoreFacts(kind="redis", state=None)}, []),
        (
            {"store": StoreFacts(kind="redis", state="ready", dropped_entries=3)},
            [("error", "ledger-entries-lost")],
        ),
        ({"open_mode": "network"}, [("warning", "open-to-network")]),
        ({"open_mode": "loopback"}, []),
        ({"time": 1000.0, "asked_at": 1004.0}, []),
        ({"time": 1000.0, "asked_at": 1006.0}, [("warning", "clock-skew")]),
        ({"time": 1006.0, "asked_at": 1000.0}, [("warning", "clock-skew")]),
    ],
)
def test_the_gateway_and_its_store(facts: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(*each, "gateway") for each in expected] == found(**facts)


def test_many_keys_without_limits_are_counted() -> None:
    team = TeamFacts(name="red", keys=9, unlimited_keys=tuple(f"k{number}" for number in range(8)))
    (finding,) = diagnosed(GatewayFacts(teams=(team,), store=StoreFacts(kind="file", state="ready")))

    assert "Neither the team nor these keys have a limit: k0, k1, k2, k3, k4 and 3 more." == finding.text
