import dataclasses

import pytest

from benchmarks.policies.names import BOUNDS, POLICIES
from benchmarks.policies.shared_cache import ToTheOne
from benchmarks.replay.entrant import Bound
from benchmarks.replay.recorded import TRACES
from replay.entrant import Entrant
from replay.run import Run
from replay.setting import Setting
from replay.trace import Trace, read_trace

ENTRANTS = {name: Entrant(policy) for name, policy in POLICIES.items()} | {
    name: Bound(lambda _: ToTheOne(), order=order) for name, order in BOUNDS.items()
}


@pytest.fixture(scope="module")
def bursts() -> Trace:
    """300 requests of prefixes that many share."""
    return read_trace(TRACES / "mooncake_synthetic_2000.jsonl").part(0, 300)


@pytest.fixture
def tight() -> Setting:
    """More than three workers can bear, with so few blocks that much is evicted."""
    return Setting("", TRACES / "mooncake_synthetic_2000.jsonl", 3, 690, speed=4.0)


@pytest.mark.parametrize("name", ENTRANTS)
def test_every_request_is_answered_once(name: str, bursts: Trace, tight: Setting) -> None:
    """Also when what engines tell comes late, and some of it is lost at first."""
    for setting in (tight, dataclasses.replace(tight, event_lag_s=1.0, event_loss=0.05)):
        answers = Run(bursts, setting, ENTRANTS[name], seed=1).answers()

        assert list(range(300)) == sorted(answer.arrival for answer in answers)
        assert all(answer.ttft_s >= 0.01 + answer.waited_s for answer in answers)


@pytest.mark.parametrize("name", ENTRANTS)
def test_the_same_seed_gives_the_same_answers(name: str, bursts: Trace, tight: Setting) -> None:
    """Nothing depends on what was replayed before, or on anything but the seed."""
    first, again = [Run(bursts, tight, ENTRANTS[name], seed=7).answers() for _ in range(2)]

    assert first == again


def test_one_cache_for_all_beats_every_policy_that_knows_no_cache(bursts: Trace, tight: Setting) -> None:
    means_s = {
        name: sum(answer.ttft_s for answer in Run(bursts, tight, ENTRANTS[name], seed=1).answers()) / 300
        for name in ("bound_shortest_first", "bound_first_come", "least_requests", "random")
    }

    assert list(means_s) == sorted(means_s, key=lambda name: means_s[name])
