import itertools
import random

import pytest

from benchmarks.scenarios.arrivals import ConstantConcurrency, SessionsAtRate
from tests.replay.examples import recorded


def test_as_many_are_in_flight_until_none_is_left() -> None:
    """Three of five begin; each answer brings the next one at that moment, the last three bring none."""
    workload = ConstantConcurrency([recorded(number) for number in range(5)], in_flight=3)
    begun = list(workload.begin())
    answered = [workload.answered(recorded(number), 10.0 + number) for number in range(5)]

    assert [(0.0, 0), (0.0, 1), (0.0, 2)] == [(at, request.number) for at, request in begun]
    assert [(10.0, 3), (11.0, 4)] == [(each[0], each[1].number) for arrivals in answered for each in arrivals]


def test_sessions_begin_at_their_rate_whatever_is_answered() -> None:
    """1,000 sessions of one request, ten in a second: 100 s, and no even gaps."""
    workload = SessionsAtRate([recorded(n, session=str(n)) for n in range(1_000)], random.Random(1), begin_per_s=10.0)
    times = [at for at, _ in workload.begin()]
    gaps = [b - a for a, b in itertools.pairwise(times)]

    assert pytest.approx(100.0, rel=0.1) == times[-1]
    assert min(gaps) < 0.02
    assert max(gaps) > 0.3


def test_a_turn_follows_the_answer_before_it() -> None:
    """After its own pause; the last of a session is followed by nothing."""
    first, second = recorded(0, session="a"), recorded(1, session="a", wait_s=4.0)
    workload = SessionsAtRate([first, second], random.Random(1), begin_per_s=1.0)

    assert [first] == [request for _, request in workload.begin()]
    assert [(14.0, second)] == workload.answered(first, 10.0)
    assert () == workload.answered(second, 20.0)
