import dataclasses

import pytest

from benchmarks.report import Circumstances, Report
from benchmarks.scenarios.seven_replicas import REPLICAS, SIZES, Knob, Size, knobs, record
from benchmarks.scenarios.trial import CACHE_TOKENS, Bench

SHORT = [dataclasses.replace(size, requests=80) for size in SIZES]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_live_contexts_fill_half_of_all_caches(size: Size) -> None:
    """The same rule for both lengths, so that one worker alone cannot hold them."""
    tokens = size.contexts().live * size.context_tokens

    assert 0.4 < tokens / (REPLICAS * CACHE_TOKENS) <= 0.5
    assert tokens > CACHE_TOKENS


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_the_request_at_the_90th_percentile_is_a_cold_one(size: Size) -> None:
    """More than a tenth are about contexts that no one has seen."""
    requests = size.contexts().trace(seed=1).requests
    shared = size.context_tokens // 128
    seen: set[int] = set()
    new = 0
    for request in requests:
        new += request.blocks[shared - 1] not in seen
        seen.add(request.blocks[shared - 1])

    assert new / len(requests) > 0.1


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_worker_can_hold_what_is_in_flight_there(size: Size) -> None:
    """Prompts and answers of the closed loop, if it gets its share."""
    per_worker = size.in_flight / REPLICAS

    assert per_worker * (size.context_tokens + 350 + 400) < CACHE_TOKENS


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_knob_turns_one_number(size: Size) -> None:
    """Every table has a title of its own, and one of its cases is that of the large run, but for the engines'."""
    found = knobs(size)

    assert len(found) == len({knob.title for knob in found}) == 8
    for knob in found:
        assert len(knob.cases) == len({(case.load, case.fleet) for case in knob.cases.values()})
        if knob.across != "engines":
            assert any(_is_the_large_run(size, case.load, case.fleet.cache_tokens) for case in knob.cases.values())


def _is_the_large_run(size: Size, load: object, cache_tokens: int) -> bool:
    contexts = dataclasses.replace(size.contexts(), requests=size.requests // 2)
    rate, crowd = getattr(load, "per_s", size.per_s), getattr(load, "in_flight", size.in_flight)
    return (contexts, size.per_s, size.in_flight, CACHE_TOKENS) == (
        getattr(load, "contexts", None),
        rate,
        crowd,
        cache_tokens,
    )


def _with_one_case(knob: Knob) -> Knob:
    name, case = next(iter(knob.cases.items()))
    return dataclasses.replace(knob, cases={name: case})


def test_a_record_has_tables_and_all_bars_of_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bars for each strategy and size; with 80 requests, what they say is chance."""
    monkeypatch.setattr("benchmarks.scenarios.seven_replicas.SIZES", SHORT)
    monkeypatch.setattr("benchmarks.scenarios.seven_replicas.knobs", lambda size: [_with_one_case(knobs(size)[0])])
    report = Report("scenarios_seven_replicas", "", Circumstances.observe(seed=1, packages=()))
    record(Bench((1,)), report, 6.88)

    assert 16 == len(report.bars)
    assert {"<=", ">="} == {bar.relation for bar in report.bars}
    assert 6 == len(report.tables)
    assert {"8k", "64k", "8k: rate, open loop", "64k: rate, open loop"} == set(report.figures)
