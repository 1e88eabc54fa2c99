import dataclasses

import pytest

from benchmarks.replay import tiers
from benchmarks.replay.entrant import BLIND
from benchmarks.replay.job import Job
from benchmarks.replay.tiers import AGENTS, AWARE, CASES, CROWDED_AWARE, RIGHT, WRONG, Case, main, parse_arguments, run
from replay.summary import Summary

GOOD = Summary(100, 0.5, 0.8, 0.5, 2.0, 3.0, 1.0, 10.0, 5.0, 100.0)


def test_a_case_has_the_setting_that_it_names() -> None:
    """The host tier has twice 1,000 blocks."""
    setting = Case(AGENTS, 2, load_price=0.25).setting

    assert (2000, 0.25) == (setting.host_blocks, setting.load_price)
    assert dataclasses.replace(AGENTS, host_blocks=0) == Case(AGENTS, 0).setting


def test_a_case_with_pulls_differs_in_nothing_else() -> None:
    assert dataclasses.replace(Case(AGENTS, 2).setting, pulls=True) == Case(AGENTS, 2, pulls=True).setting


def test_wrong_prices_are_five_times_too_high_and_too_low() -> None:
    """The engines load twenty times as fast as they compute."""
    assert [0.05, 0.25, 0.01] == [case.load_price for case in (RIGHT, *WRONG)]


def test_every_case_has_a_title_of_its_own() -> None:
    """Each case is a row, and the bars are about four of them."""
    assert len(CASES) == len({case.title for case in CASES})
    assert {AWARE, CROWDED_AWARE, RIGHT, *WRONG} <= set(CASES)


@pytest.mark.parametrize(("ttft_s", "met"), [(0.5, 13), (0.8, 12), (0.9, 11), (1.6, 10)])
def test_a_report_has_both_workloads_and_all_bars(monkeypatch: pytest.MonkeyPatch, ttft_s: float, met: int) -> None:
    """Every case has one summary per seed; the blind router is slower."""

    def summary_of(job: Job) -> Summary:
        return dataclasses.replace(GOOD, ttft_mean_s=3.0 if job.strategy == BLIND else ttft_s)

    monkeypatch.setattr(tiers, "summary_of", summary_of)
    report = run(parse_arguments(["--seeds", "2"]))

    assert [14, 9] == [len(table.rows) for table in report.tables]
    assert met == sum(bar.is_met for bar in report.bars)
    assert all(2 == len(runs) for runs in report.figures.values())


def test_a_report_about_pulls_has_pairs_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four sizes of host tiers for each workload, with and without pulls; a bar for each pair, and one for the gain."""
    monkeypatch.setattr(tiers, "summary_of", lambda _: GOOD)
    report = run(parse_arguments(["--seeds", "1", "--pulls"]))

    assert ("replay_pulls", [8, 8], 9) == (report.name, [len(table.rows) for table in report.tables], len(report.bars))


def test_no_seeds_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing would be measured."""
    assert 2 == main(["--seeds", "0"])
    assert "--seeds and --processes must be at least 1" in capsys.readouterr().err
