import argparse
from pathlib import Path

import pytest

from benchmarks.peers.routing.slices import SLICES, Said, Session, Slice, Slicing, Turn, WorkerRates
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.replay.slices import (
    ANSWERS_FROM,
    LOADS,
    PLAYED,
    Figures,
    Play,
    asked,
    loads_of,
    parse_arguments,
    played,
    run,
    setting_of,
)
from replay.run import Answer
from simulator.rendering import render_chat
from simulator.tokens import TokenSequence


def turn(text: str, *, wait_s: float = 0.0, output_tokens: int = 40) -> Turn:
    return Turn(wait_s, Said([{"role": "user", "content": text}]), output_tokens)


def two_sessions(_: Slicing) -> list[Session]:
    """The second begins a second after the first, as the first did, and goes on two seconds after its answer."""
    return [Session(0.0, [turn("a" * 800)]), Session(1.0, [turn("a" * 800), turn("a" * 800 + "b" * 800, wait_s=2.0)])]


SMALL = Slice("Two", 2, None, WorkerRates(blocks=800, prefill_tokens_per_s=400.0), 4, 1.0, two_sessions)


def answer(worker: int, ttft_s: float, prompt_tokens: int, cached_tokens: int) -> Answer:
    return Answer(0, worker, ttft_s, 0.0, prompt_tokens, cached_tokens)


def test_equal_beginnings_are_equal_blocks() -> None:
    """In blocks of 16 tokens, as the simulated engines make them; a longer prompt begins with the shorter one."""
    first, second = asked(two_sessions(Slicing(2, None, 1, 1)))
    (one,), (same, longer) = first.requests, second.requests
    tokens = len(TokenSequence.from_text(render_chat([{"role": "user", "content": "a" * 800}])))

    assert (tokens, tokens // 16) == (one.prompt_tokens, len(one.blocks))
    assert one.blocks == same.blocks
    assert longer.blocks[:12] == one.blocks[:12]
    assert longer.blocks[-1] not in one.blocks
    assert [0, 1, 2] == [each.number for each in (one, same, longer)]


def test_answers_take_room_that_no_one_asks_for_again() -> None:
    """Full blocks of prompt and answer, without the last token, which is never computed."""
    requests = [request for session in asked(two_sessions(Slicing(2, None, 1, 1))) for request in session.requests]
    answers = [block for request in requests for block in request.answer_blocks]

    assert [(each.prompt_tokens + 39) // 16 for each in requests] == [
        len(each.blocks) + len(each.answer_blocks) for each in requests
    ]
    assert len(answers) == len(set(answers))
    assert all(ANSWERS_FROM <= block < 2**32 for block in answers)


def test_all_requests_count() -> None:
    """Two on one worker, which computes 150 of 160 tokens, and one on another of four."""
    figures = Figures.of([answer(0, 1.0, 100, 0), answer(0, 2.0, 100, 50), answer(1, 6.0, 100, 90)], 4)

    assert (
        Figures(
            hit=140 / 300,
            ttft_mean_s=3.0,
            ttft_p50_s=2.0,
            ttft_p90_s=6.0,
            ttft_p99_s=6.0,
            imbalance=3.75,
            busiest=2 / 3,
        )
        == figures
    )


def test_engines_and_beliefs_are_those_of_the_slice() -> None:
    """Caches and rates are shrunk with the prompts; a gateway believes 2,000 tokens per second, shrunk as well."""
    ours, other = setting_of(SMALL, "kv_aware"), setting_of(SMALL, "lmetric")

    assert (4, 200, 100.0) == (ours.workers, ours.blocks, ours.prefill_tokens_per_s)
    assert (5.0, None) == (ours.rate_error, other.rate_error)


@pytest.mark.parametrize("strategy", ["kv_aware", "lmetric", "bound_first_come"])
def test_prompts_are_computed_as_fast_as_the_slice_says(strategy: str) -> None:
    """100 tokens per second: the first prompt takes two seconds, and nothing of it is there before."""
    slicing = Slicing(2, None, 4, 1)
    figures = played(SMALL, asked(two_sessions(slicing)), Play("small", slicing, strategy, 1.0))

    assert figures.ttft_p99_s > 1.9
    assert 0.2 < figures.hit < 0.9


def test_unequal_workers_have_the_speeds_that_are_given() -> None:
    """One of 100 tokens per second, one of 25: others know the mean, ours believe what a gateway does."""
    ours, other = (
        setting_of(SMALL, strategy, workers=2, worker_speeds=(1.0, 0.25)) for strategy in ("kv_aware", "lmetric")
    )

    assert [1.0, 0.25] == [other.worker_speed(worker) for worker in range(2)]
    assert (2, 62.5, None) == (other.workers, other.mean_tokens_per_s, other.rate_error)
    assert (8.0, 500.0) == (ours.rate_error, ENTRANTS["kv_aware"].believed_tokens_per_s(ours))


def test_each_of_more_workers_has_as_much_to_do() -> None:
    """Four times the sessions come four times as fast; where all sessions go on at once, their number does it."""
    assert [16, 32, 48] == loads_of("tau", 16)
    assert [4, 8, 12] == loads_of("tau", 4)
    assert [1.5, 2.2, 2.5] == loads_of("agentic", 16)


def test_every_slice_has_loads_for_the_record() -> None:
    assert set(SLICES) == set(LOADS)
    assert list(PLAYED) == parse_arguments(["--slice", "tau"]).strategies


def test_a_report_has_a_table_for_each_load(tmp_path: Path) -> None:
    """With the spread over seeds."""
    arguments = ["--slice", "tau", "--size", "2", "--seeds", "2", "--loads", "1,2", "--strategies", "kv_aware,lmetric"]
    report = run(parse_arguments([*arguments, "--results", str(tmp_path)]))

    assert ["Load 1", "Load 2"] == [table.title for table in report.tables]
    assert ["kv_aware", "lmetric"] == [row[0] for row in report.tables[0].rows]
    assert 0.5 < report.figures["1.0"]["kv_aware"][0].hit < 1.0


@pytest.mark.parametrize(
    ("fleet", "name", "title"),
    [
        ([], "replay_slice_tau", "In virtual time: tau-bench, airline conversations"),
        (
            ["--workers", "2", "--speeds", "1,.5"],
            "replay_slice_tau_2_workers_unequal",
            "In virtual time: tau-bench, airline conversations, 2 workers, 1 : 0.5 times as fast",
        ),
    ],
)
def test_each_fleet_has_a_report_of_its_own(fleet: list[str], name: str, title: str) -> None:
    arguments = ["--slice", "tau", "--size", "1", "--seeds", "1", "--loads", "1", "--strategies", "lmetric"]
    report = run(parse_arguments([*arguments, *fleet]))

    assert (name, title) == (report.name, report.title)


@pytest.mark.e2e
def test_processes_do_not_change_the_figures() -> None:
    arguments = ["--slice", "tau", "--size", "2", "--seeds", "2", "--loads", "1", "--strategies", "kv_aware,lmetric"]
    alone, together = (run(parse_arguments([*arguments, "--processes", number])) for number in "12")

    assert alone.figures == together.figures


def test_no_seeds_are_an_error() -> None:
    """Nothing would be measured."""
    with pytest.raises(ValueError, match="must be at least 1"):
        run(argparse.Namespace(seeds=0))
