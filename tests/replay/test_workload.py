import random
from pathlib import Path

import pytest

from replay.setting import Setting
from replay.trace import Recorded, read_trace
from replay.workload import ClosedLoop, OpenLoop, OpenSessions, SessionStart, workload_of
from tests.replay.examples import recorded, session, three, written


def test_a_higher_speed_brings_requests_closer(tmp_path: Path) -> None:
    """At twice the speed, requests of 0, 5 and 15 s come by 2.5 s apart and more, each in its bin of 5 s."""
    times = [at for at, _ in OpenLoop(read_trace(three(tmp_path)).requests, random.Random(1), speed=2.0).begin()]

    assert 0.0 <= times[0] < 2.5 <= times[1] < 5.0
    assert 7.5 <= times[2] < 10.0


def test_requests_of_one_bin_are_spread_in_order() -> None:
    """A hundred at 0 s and one at 3 s: the hundred fill the three seconds between, as they were recorded."""
    requests = [recorded(number) for number in range(100)] + [recorded(100, wait_s=3.0)]
    arrivals = list(OpenLoop(requests, random.Random(1), speed=1.0).begin())
    times = [at for at, _ in arrivals]

    assert list(range(101)) == [request.number for _, request in arrivals]
    assert times == sorted(times)
    assert times[0] < 0.3
    assert 2.7 < times[99] < 3.0


def test_poisson_arrivals_come_at_their_rate() -> None:
    """A thousand requests at six per second take about 167 s, whenever they were recorded."""
    requests = [recorded(number) for number in range(1000)]
    *_, (last, _) = OpenLoop(requests, random.Random(1), speed=1.0, poisson_per_s=6.0).begin()

    assert pytest.approx(1000 / 6, rel=0.1) == last


def test_an_open_loop_does_not_wait_for_answers() -> None:
    """Nothing follows from one."""
    assert OpenLoop([recorded(0)], random.Random(1), speed=1.0).answered(recorded(0), 1.0) == ()


def test_a_user_thinks_and_then_takes_the_next_session() -> None:
    """One user, two sessions: the pause inside a session is the recorded one, between sessions there is not one."""
    requests = [
        recorded(0, session="a"),
        recorded(1, session="a", wait_s=8.0),
        recorded(2, session="b"),
    ]
    workload = ClosedLoop(requests, random.Random(1), users=1, speed=2.0)
    ((began, first),) = workload.begin()

    assert 0.0 <= began < 4.0
    assert 0 == first.number
    assert [(14.0, requests[1])] == workload.answered(first, 10.0)
    assert [(20.0, requests[2])] == workload.answered(requests[1], 20.0)
    assert () == workload.answered(requests[2], 30.0)


def test_sub_agents_begin_together_and_their_parent_goes_on_after_the_last() -> None:
    """A parent spawns two sub-agents, of which one asks twice, and then thinks for 5 s."""
    requests = [
        recorded(0, session="a", spawns="g"),
        recorded(1, session="a", wait_s=5.0),
        recorded(2, session="a/1", group="g"),
        recorded(3, session="a/1", group="g", wait_s=3.0),
        recorded(4, session="a/2", group="g"),
        recorded(5, session="b"),
    ]
    workload = ClosedLoop(requests, random.Random(1), users=1, speed=1.0)

    assert [0] == [request.number for _, request in workload.begin()]
    assert [(10.0, requests[2]), (10.0, requests[4])] == workload.answered(requests[0], 10.0)
    assert [(15.0, requests[3])] == workload.answered(requests[2], 12.0)
    assert () == workload.answered(requests[4], 13.0)
    assert [(21.0, requests[1])] == workload.answered(requests[3], 16.0)
    assert [(30.0, requests[5])] == workload.answered(requests[1], 30.0)


def test_a_session_can_end_with_its_sub_agents() -> None:
    """Nothing follows the group, so the user takes the next session."""
    requests = [recorded(0, session="a", spawns="g"), recorded(1, session="a/1", group="g"), recorded(2, session="b")]
    workload = ClosedLoop(requests, random.Random(1), users=1, speed=1.0)

    assert [(1.0, requests[1])] == workload.answered(requests[0], 1.0)
    assert [(2.0, requests[2])] == workload.answered(requests[1], 2.0)


def test_the_trace_says_which_loop_it_is(tmp_path: Path) -> None:
    """With sessions two users begin; without, all three requests come by themselves."""
    closed = written(tmp_path, *(session(number) for number in range(3)))
    users = workload_of(read_trace(closed), Setting("", closed, 1, 1, users=2), 1)
    opened = three(tmp_path)
    alone = workload_of(read_trace(opened), Setting("", opened, 1, 1, users=2), 1)

    assert [0, 2] == [request.number for _, request in users.begin()]
    assert [0, 1, 2] == [request.number for _, request in alone.begin()]


def test_a_seed_gives_the_same_arrivals(tmp_path: Path) -> None:
    """Another seed gives others."""
    path = three(tmp_path)
    trace, setting = read_trace(path), Setting("", path, 1, 1)
    first, again, other = [list(workload_of(trace, setting, seed).begin()) for seed in (1, 1, 2)]

    assert first == again
    assert first != other


def test_load_is_how_much_faster_everybody_comes_and_goes_on() -> None:
    """At load 2 all times are half as long."""
    session = SessionStart(6.0, [Recorded(0, "0", 0.0, 10, 1, ()), Recorded(1, "0", 3.0, 10, 1, ())])

    assert (3.0, [0.0, 1.5]) == (session.at(2.0).begins_s, [each.wait_s for each in session.at(2.0).requests])


def test_a_session_goes_on_after_its_answer() -> None:
    first, second = Recorded(0, "0", 0.0, 10, 1, ()), Recorded(1, "0", 3.0, 10, 1, ())
    sessions = OpenSessions([SessionStart(6.0, [first, second])])

    assert [(6.0, first)] == list(sessions.begin())
    assert [(13.0, second)] == sessions.answered(first, 10.0)
    assert () == sessions.answered(second, 20.0)
