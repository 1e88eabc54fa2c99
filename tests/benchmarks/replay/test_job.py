import dataclasses
from pathlib import Path

import pytest

from benchmarks.replay.job import Job, figures_of, highest_speed, speed_of, summary_of, trace_of
from replay.setting import Setting
from tests.replay.examples import asked, three, written


def a_job(path: Path, strategy: str = "kv_aware", *, skip: int = 0) -> Job:
    return Job(Setting("", path, 2, 100, skip=skip), strategy, 1)


def test_a_summary_is_of_the_part_that_the_setting_says(tmp_path: Path) -> None:
    """The third request alone, which finds nothing of the two before."""
    summary = summary_of(a_job(three(tmp_path), skip=2))

    assert (1, 0.0) == (summary.requests, summary.hit)


def test_a_bound_has_one_worker(tmp_path: Path) -> None:
    assert 1.0 == summary_of(a_job(three(tmp_path), "bound_first_come")).imbalance


@pytest.mark.parametrize("bearable", [0.5, 1.0, 2.37])
def test_the_highest_speed_is_found_to_a_step(bearable: float) -> None:
    """Whatever is below it can be borne, what is above cannot."""
    assert bearable - 0.02 <= highest_speed(lambda speed: speed <= bearable) <= bearable


def test_a_speed_without_limit_ends_the_search() -> None:
    """A trace too short to overload anything."""
    assert highest_speed(lambda _: True) >= 64.0


def test_a_speed_can_be_borne_that_the_engines_can_follow(tmp_path: Path) -> None:
    """One prompt of 2 s every 10 s before one engine: 4.3 to 5.5 times as fast it is just not too much."""
    path = written(
        tmp_path, *(asked(10_000 * number, 20_000, range(100 * number, 100 * number + 39)) for number in range(60))
    )
    job = Job(Setting("", path, 1, 100), "round_robin", 1)

    assert 4.3 <= speed_of(job) <= 5.5


@pytest.mark.e2e
def test_figures_come_in_the_order_of_their_jobs(tmp_path: Path) -> None:
    """On one process or on two."""
    path = three(tmp_path)
    jobs = [a_job(path, strategy, skip=skip) for strategy in ("round_robin", "kv_aware") for skip in (0, 2)]
    alone = figures_of(summary_of, jobs, processes=1)

    assert [2, 1, 2, 1] == [summary.requests for summary in alone]
    assert alone == figures_of(summary_of, jobs, processes=2)


@pytest.mark.e2e
def test_a_job_that_cannot_be_done_says_why(tmp_path: Path) -> None:
    """Also from another process."""
    job = a_job(three(tmp_path))
    missing = dataclasses.replace(job, setting=dataclasses.replace(job.setting, trace=tmp_path / "none.jsonl"))
    with pytest.raises(OSError, match=r"none\.jsonl"):
        figures_of(summary_of, [missing, missing], processes=2)


def test_a_trace_is_read_once(tmp_path: Path) -> None:
    """It is large, and asked for again and again."""
    path = three(tmp_path)

    assert trace_of(path) is trace_of(path)
