import json
from pathlib import Path

import pytest

from gateway.telemetry.shapes.reader import read_shapes
from gateway.telemetry.what_if.job import Change, FleetShape, Job, Message, Result
from gateway.telemetry.what_if.replays import Progress, measured_figures, recorded_fleet, result_of, token_usd
from tests.gateway.telemetry.what_if.examples import a_job, folder
from tests.replay.examples import asked, session


def run(job: Job) -> Result:
    return result_of(job, lambda _: None)


def test_alternatives_stand_beside_what_was_recorded(tmp_path: Path) -> None:
    """Two workers answered; the cache size is that of the gateway's workers."""
    result = run(a_job(folder(tmp_path), Change(strategy="round_robin"), Change(workers=6), Change(cache_factor=0.02)))
    assert result.recorded is not None

    assert FleetShape("prefix_aware", 2, 100_000) == result.recorded.fleet
    assert [
        FleetShape("round_robin", 2, 100_000),
        FleetShape("prefix_aware", 6, 100_000),
        FleetShape("prefix_aware", 2, 2000),
    ] == [row.fleet for row in result.alternatives]
    assert (36, 64.0) == (result.requests, result.duration_s)


def test_affinity_is_faster_than_round_robin(tmp_path: Path) -> None:
    """Affinity hits as many of the prompt tokens as were measured, and round robin fewer."""
    result = run(a_job(folder(tmp_path), Change(strategy="round_robin")))
    (robin,) = result.alternatives
    assert result.recorded is not None
    assert result.recorded.figures is not None
    assert robin.figures is not None
    assert result.measured is not None

    assert result.recorded.figures.ttft_mean_s < robin.figures.ttft_mean_s
    assert (robin.figures.hit_ratio or 0) < (result.recorded.figures.hit_ratio or 0)
    assert abs((result.recorded.figures.hit_ratio or 0) - (result.measured.hit_ratio or 0)) < 0.05


@pytest.mark.parametrize("ttft_s", [0.4, 0.8])
def test_replays_agree_with_what_was_measured(tmp_path: Path, ttft_s: float) -> None:
    """Engines are as fast as the recorded times say, whatever was learned."""
    result = run(a_job(folder(tmp_path, ttft_s=ttft_s)))
    assert result.recorded is not None
    assert result.recorded.figures is not None

    assert result.recorded.figures.ttft_mean_s == pytest.approx(ttft_s, rel=0.05)


def test_savings_are_by_team(tmp_path: Path) -> None:
    """Half of the conversations are of each of two teams; a GPU hour of 3.6 dollars is 0.001 dollars a second."""
    result = run(a_job(folder(tmp_path), gpu_hour_usd=3.6))
    blue, red = result.savings

    assert ["blue", "red"] == [blue.team, red.team]
    assert [(18, 18_432)] * 2 == [(each.requests, each.prompt_tokens) for each in (blue, red)]
    assert min(blue.saved_tokens, red.saved_tokens) > 0
    assert min(blue.saved_s, red.saved_s) > 0
    assert blue.saved_usd == pytest.approx(blue.saved_tokens * 0.001 * 0.001 * result.scale, rel=0.01)


def test_the_cost_is_that_of_all_workers(tmp_path: Path) -> None:
    """Two workers for as long as the replay takes."""
    result = run(a_job(folder(tmp_path), Change(workers=4), gpu_hour_usd=3.6))
    (four,) = result.alternatives
    assert result.recorded is not None
    assert result.recorded.gpu_hours is not None
    assert four.gpu_hours is not None

    assert four.gpu_hours == pytest.approx(2 * result.recorded.gpu_hours, rel=0.05)
    assert four.usd == pytest.approx(3.6 * four.gpu_hours)


def test_a_cache_that_is_too_small_is_said_for_its_alternative(tmp_path: Path) -> None:
    """The others have figures."""
    small, large = run(a_job(folder(tmp_path), Change(cache_tokens=128), Change(workers=3))).alternatives

    assert small.figures is None
    assert small.error is not None
    assert small.error.startswith("A request does not fit into the cache of a worker: ")
    assert large.figures is not None


def test_an_uploaded_trace_has_alternatives_only() -> None:
    """An open loop with times, and a closed loop of sessions."""
    times = "\n".join(json.dumps(asked(1000 * at, 1100, [1, 2, 3])) for at in range(20))
    sessions = "\n".join(json.dumps(session(number)) for number in range(5))
    results = [run(a_job(None, Change(strategy="round_robin"), trace=trace)) for trace in (times, sessions)]

    assert [20, 10] == [result.requests for result in results]
    assert [(None, None, ())] * 2 == [(each.measured, each.recorded, each.savings) for each in results]
    assert all(row.figures is not None for result in results for row in result.alternatives)


def test_nothing_recorded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no requests were recorded in this time"):
        run(a_job(tmp_path))


def test_progress_is_reported_in_few_steps() -> None:
    """Shares of the work, at most 200 of them."""
    messages: list[Message] = []
    progress = Progress(1000, messages.append)
    for _ in range(1000):
        progress.answered()

    assert 200 == len(messages)
    assert [Message(done=0.005), Message(done=1.0)] == [messages[0], messages[-1]]


def test_only_streams_measure_a_first_token(tmp_path: Path) -> None:
    shapes = read_shapes(folder(tmp_path))
    found = measured_figures(shapes)
    assert found is not None

    assert 33 == found.requests
    assert found.ttft_mean_s == pytest.approx(0.1)
    assert FleetShape("prefix_aware", 2, 100_000) == recorded_fleet(a_job(tmp_path), shapes)


def test_a_token_costs_what_its_time_or_its_price_says(tmp_path: Path) -> None:
    """A millisecond at 3.6 dollars an hour, on engines that take twice as long; nothing is known without prices."""
    assert token_usd(a_job(tmp_path, gpu_hour_usd=3.6), 2.0) == pytest.approx(2e-6)
    assert token_usd(a_job(tmp_path), 2.0) is None
