import json
from collections.abc import Mapping

import pytest

from benchmarks.peers.dynamo_replay import (
    BATCHED_TOKENS,
    BY_TURNS,
    THEIRS,
    Rates,
    Timed,
    mooncake,
    ours,
    parse_arguments,
    summary_of,
    tell,
)
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.replay.recorded import CONVERSATION
from benchmarks.report import Circumstances, Report
from engine_model.blocks import BlockPool
from engine_model.engine import FirstToken
from engine_model.request import EngineRequest
from replay.setting import Setting
from replay.summary import Summary
from replay.trace import Recorded, Trace

SETTING = Setting("any", CONVERSATION, 2, 100, 1.0)


def recorded(number: int, *blocks: int, tokens: int, wait_s: float = 0.0) -> Recorded:
    return Recorded(number, None, wait_s, tokens, 5, blocks)


def test_a_trace_is_written_in_mooncakes_form_with_an_own_id_for_what_follows_the_blocks() -> None:
    written = mooncake([(0.5, recorded(0, 7, 8, tokens=1100)), (2.0, recorded(1, 7, tokens=600))], 512)

    assert [
        {"timestamp": 500, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]},
        {"timestamp": 2000, "input_length": 600, "output_length": 5, "hash_ids": [7, 10]},
    ] == [json.loads(line) for line in written.splitlines()]


def test_a_prompt_that_ends_with_its_last_block_has_no_id_beyond_it() -> None:
    (line,) = mooncake([(0.0, recorded(0, 7, tokens=512))], 512).splitlines()

    assert [7] == json.loads(line)["hash_ids"]


def test_figures_of_theirs_are_made_as_ours_are() -> None:
    """The first tenth is not counted: here the first of ten, which was the slowest."""

    def request(place: int) -> Mapping[str, float]:
        ttft_s = 100.0 if place == 0 else 1.0
        return {"worker": place % 2, "ttft_s": ttft_s, "prompt_tokens": 100, "cached_tokens": 40}

    summary = summary_of([request(place) for place in range(10)], workers=2)

    assert (9, 0.4, 1.0) == (summary.requests, summary.hit, summary.ttft_mean_s)
    assert pytest.approx(10 / 9) == summary.imbalance


def test_engines_take_what_was_measured() -> None:
    """A prompt of two steps takes two steps."""
    rates = Rates(1000.0, 0.01)
    entrant = ENTRANTS["round_robin"]
    engine = Timed(entrant.policy, entrant.tokens_per_s, rates).engine(SETTING, BlockPool(100, 512))
    tokens = 2 * BATCHED_TOKENS
    engine.submit(EngineRequest("r", tokens, 3, tuple(range(tokens // 512))), 0.0)
    first: list[float] = []
    last = 0.0
    while (at := engine.next_event_at()) is not None:
        events = engine.advance(at)
        first += [event.at for event in events if isinstance(event, FirstToken)]
        last = max([last, *(event.at for event in events)])

    assert pytest.approx([tokens / 1000.0]) == first
    assert pytest.approx(first[0] + 2 * 0.01) == last


def test_ours_is_replayed_before_such_engines() -> None:
    requests = [recorded(0, 1, 2, tokens=1024), recorded(1, 1, 2, tokens=1024, wait_s=50.0)]
    summary = ours(Trace(512, False, requests), SETTING, "prefix_aware", Rates(1000.0, 0.01), 1)

    # The second finds the first's blocks but the last one, of which the last token has to be computed.
    assert pytest.approx(0.512) == summary.ttft_mean_s
    assert 0.5 == summary.hit


def test_kv_aware_is_compared_with_the_best_of_theirs() -> None:
    def summary(ttft_s: float) -> Summary:
        return Summary(9, 0.5, ttft_s, ttft_s, ttft_s, ttft_s, 1.0, 0.0)

    found = {name: summary(2.0) for name in THEIRS} | {BY_TURNS: summary(4.0), "ours: kv_aware": summary(1.0)}
    report = Report("any", "Any", Circumstances.observe(seed=1, packages=()))
    tell(report, SETTING, found, Rates(10_000.0, 0.012), {"speedup_ratio": 0.2})

    assert [0.5] == [bar.value for bar in report.bars]
    assert BY_TURNS not in report.bars[0].what
    assert len(found) == len(report.tables[0].rows)
    assert "10,000 tokens" in report.notes[0]


def test_the_trace_is_one_with_times() -> None:
    assert parse_arguments([]).trace == CONVERSATION
