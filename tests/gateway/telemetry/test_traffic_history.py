"""Facts about samples of the traffic."""

import pytest

from gateway.protocol.usage import Usage
from gateway.telemetry.counters import CountersByModel, CountersByTeam
from gateway.telemetry.traffic_history import EVERY_S, KEPT, TrafficHistory, quantile
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model, an_ended_request, the_models


class Followed:
    def __init__(self) -> None:
        self.counts, self.costs, self.clock = CountersByModel(), CountersByTeam(), Clock(1000.0)
        self.history = TrafficHistory(
            self.counts.counters,
            self.costs.counters,
            the_models(a_model(Answers(), name="tiny")),
            settle=lambda: None,
            wall_clock=self.clock,
        )
        self.history.take()

    def answer(self, *, status: int = 200, ttft_s: float = 0.2) -> None:
        error = None if status < 400 else "NoWorker"
        ended = an_ended_request(
            103.0, status=status, error=error, first_byte=100.0 + ttft_s, usage=Usage(100, 10, 80), team="blue",
            cost_usd=0.5, saved_usd=0.25,
        )  # fmt: skip
        self.counts.observe([ended])
        self.costs.observe([ended])

    def take(self) -> None:
        self.clock.now += EVERY_S
        self.history.take()


def test_an_interval_has_what_came_since_the_sample_before() -> None:
    followed = Followed()
    followed.answer()
    followed.take()
    followed.answer()
    followed.answer()
    followed.answer(status=503)
    followed.answer(status=429)
    followed.take()
    last = followed.history.last(5)

    assert last is not None
    assert (1010.0, 5.0, 4, 1, 1) == (last.time, last.seconds, last.requests, last.failed, last.refused)
    assert (200, 160, 20) == (last.prompt_tokens, last.cached_tokens, last.completion_tokens)
    assert (2.0, 1.0) == (last.cost_usd, last.saved_usd)


def test_the_last_minute_is_as_long_as_the_samples_are() -> None:
    followed = Followed()
    assert followed.history.last(60) is None
    for _ in range(20):
        followed.answer()
        followed.take()
    last = followed.history.last(60)

    assert last is not None
    assert (60.0, 12) == (last.seconds, last.requests)


def test_an_hour_has_sixty_intervals_and_is_bounded() -> None:
    followed = Followed()
    for _ in range(KEPT + 100):
        followed.answer()
        followed.take()

    hour, quarter = followed.history.intervals(60), followed.history.intervals(15)
    assert (60, 60.0, 12) == (len(hour), hour[0].seconds, hour[0].requests)
    assert (60, 15.0, 3) == (len(quarter), quarter[-1].seconds, quarter[-1].requests)
    assert hour[-1].time == quarter[-1].time == followed.clock.now


def test_times_are_estimated_within_their_bucket() -> None:
    followed = Followed()
    for _ in range(10):
        followed.answer(ttft_s=0.2)
    followed.take()
    last = followed.history.last(5)

    assert last is not None
    assert pytest.approx(0.175) == last.ttft_p50_s
    assert pytest.approx(0.2425) == last.ttft_p95_s


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0], 0.5, None),
        ([2, 2, 0], 0.5, 1.0),
        ([2, 2, 0], 0.75, 2.0),
        ([0, 0, 5], 0.5, 3.0),
        ([4, 0, 0], 0.5, 0.5),
    ],
)
def test_quantiles(counts: list[int], share: float, expected: float | None) -> None:
    """Buckets up to 1 and up to 3, and a last one without an upper bound."""
    assert quantile((1.0, 3.0), counts, share) == (None if expected is None else pytest.approx(expected))
