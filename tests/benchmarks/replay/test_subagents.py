import dataclasses

import pytest

from benchmarks.replay import subagents
from benchmarks.replay.entrant import AT_ONCE
from benchmarks.replay.subagents import Figures, First, Play, figures_of, main, parse_arguments, run, summarized
from replay.run import Answer
from replay.setting import Setting
from replay.trace import Recorded, Trace

SHARED = tuple(range(100))
"""1,600 tokens in blocks of 16, which take 1.6 s at 1,000 tokens per second."""
GOOD = Figures(0.9, 1.0, 2.0, 100.0, 500.0, 0.7, 0.96, 0.5, 1_000)


def agent(number: int) -> Recorded:
    blocks = (*SHARED, *range(1000 * number, 1000 * number + 20))
    return Recorded(number, f"p/0/{number}", 0.0, 1920, 10, blocks, group="p/0")


def answer(number: int, waited_s: float, cached_tokens: int) -> Answer:
    return Answer(
        number, 0, waited_s + 1.0, waited_s, 1920, cached_tokens, arrived_at=10.0, ended_at=20.0 + number, number=number
    )


def summary(*answers: Answer) -> Figures:
    parent = Recorded(0, "p", 0.0, 160, 10, tuple(range(5000, 5010)), spawns="p/0")
    asked = Answer(0, 0, 1.0, 0.0, 160, 0, arrived_at=0.0, ended_at=10.0, number=0)
    trace = Trace(16, True, [parent, *(agent(each.number) for each in answers)])
    return summarized(trace, [asked, *answers], 1000.0)


def test_a_prefix_that_one_computes_is_computed_once() -> None:
    """Three sub-agents, of which two find all of the prefix; the program takes from 0 to 23 s."""
    figures = summary(answer(1, 0.0, 0), answer(2, 2.0, 1600), answer(3, 2.5, 1600))

    assert (1.0, 1.0, 0.0) == (figures.computed_once, figures.worth, figures.copies)
    assert (13.0, 23.0) == (figures.group_mean_s, figures.program_p90_s)
    assert 1920 + 320 + 320 + 160 == figures.computed_tokens


def test_a_copy_for_few_sub_agents_is_not_worth_its_cost() -> None:
    """The copy takes 1.6 s, and what waits needs 0.32 s each."""
    figures = summary(answer(1, 0.0, 0), answer(2, 0.0, 0), answer(3, 2.5, 1600))

    assert (0.0, 0.0, 1.0) == (figures.computed_once, figures.worth, figures.copies)


def test_a_copy_for_many_sub_agents_is_worth_its_cost() -> None:
    """Ten wait, with 3.2 s of work."""
    figures = summary(answer(1, 0.0, 0), answer(2, 0.0, 0), *(answer(number, 2.5, 1600) for number in range(3, 13)))

    assert (0.0, 1.0, 1.0) == (figures.computed_once, figures.worth, figures.copies)


def test_the_second_copy_must_be_worth_it_for_two_workers() -> None:
    """Six wait with 1.92 s of work when the first copy begins, and 1.6 s when the second does: 0.8 s for each."""
    firsts = [First(0.0, 0.0, 1.6, 0.32), First(0.0, 0.0, 1.6, 0.32), First(0.0, 1.0, 1.6, 0.32)]
    waiting = [First(0.0, 3.0, 0.0, 0.32) for _ in range(4)]

    assert [True, False] == subagents._copies([*firsts, *waiting])


def test_a_run_has_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sessions on two workers."""
    monkeypatch.setattr(subagents, "SESSIONS", 3)
    setting = dataclasses.replace(subagents.SETTINGS["subagents"], workers=2)
    monkeypatch.setattr(subagents, "SETTINGS", {"subagents": setting})
    figures = figures_of(Play("subagents", "kv_aware", 1))

    assert figures.hit > 0.5
    assert 0.0 <= figures.computed_once <= figures.worth <= 1.0


@pytest.mark.parametrize(("worth", "ttft_s", "met"), [(0.96, 1.0, 4), (0.9, 1.0, 3), (0.96, 3.0, 2)])
def test_a_report_has_both_settings_and_all_bars(
    monkeypatch: pytest.MonkeyPatch, worth: float, ttft_s: float, met: int
) -> None:
    """Without waiting, twice as many tokens are computed."""
    before = dataclasses.replace(GOOD, ttft_mean_s=2.0, computed_tokens=2_000)
    ours = dataclasses.replace(GOOD, ttft_mean_s=ttft_s, worth=worth)
    monkeypatch.setattr(subagents, "SESSIONS", 3)
    monkeypatch.setattr(subagents, "figures_of", lambda play: before if play.strategy == AT_ONCE else ours)
    report = run(parse_arguments(["--seeds", "2", "--strategies", f"kv_aware,{AT_ONCE}"]))

    assert [2, 2] == [len(table.rows) for table in report.tables]
    assert met == sum(bar.is_met for bar in report.bars)


def test_without_the_comparison_there_are_no_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subagents, "SESSIONS", 3)
    monkeypatch.setattr(subagents, "figures_of", lambda _: GOOD)

    assert [] == run(parse_arguments(["--seeds", "1", "--strategies", "lmetric"])).bars


def test_no_seeds_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing would be measured."""
    assert 2 == main(["--seeds", "0"])
    assert "--seeds and --processes must be at least 1" in capsys.readouterr().err


def test_the_settings_differ_in_caches_and_users() -> None:
    usual, crowded = subagents.SETTINGS.values()

    assert isinstance(usual, Setting)
    assert (2000, 20, 400, 60) == (usual.blocks, usual.users, crowded.blocks, crowded.users)
