import random

import pytest

from routing.breaker import Breaker
from routing.learning.rates import Rates
from routing.loads import NO_LOADS, Loads
from routing.worker import Worker
from tests.routing.examples import A, B, C, rates_of
from tests.routing.worker_examples import a_worker, answered, booked, generated


class TestRates:
    def test_the_prior_speaks_before_any_answer(self) -> None:
        """Two thousand tokens per second, and 10 ms for each request."""
        worker = a_worker(2000.0)

        assert pytest.approx(2000.0) == worker.speed.prefill_tokens_per_s
        assert pytest.approx(0.01 + 1000 / 2000) == worker.prefill_s(1000.0)

    def test_a_load_reports_the_rates_that_predictions_use(self) -> None:
        """A strategy predicts the same time as the booking."""
        worker = a_worker(2000.0)
        load = worker.load(0.0)

        assert pytest.approx(worker.prefill_s(500.0)) == load.prefill_overhead_s + 500.0 * load.prefill_s_per_token
        assert pytest.approx(0.0005) == load.decode_s_per_token

    @pytest.mark.parametrize("believed", [5_000.0, 10_000.0, 20_000.0])
    def test_it_converges_on_the_true_rate(self, believed: float) -> None:
        """The worker computes 10,000 tokens per second; 40 answers later it is believed to do so within 5 %."""
        rng = random.Random(1)
        worker = a_worker(believed)
        for i in range(200):
            answered(worker, rng.randrange(100, 8000), tokens_per_s=10_000.0, at=10.0 * i)

            assert i < 40 or 9_500.0 <= worker.speed.prefill_tokens_per_s <= 10_500.0

    def test_noise_moves_it_little(self) -> None:
        """Measured times that are off by up to 20 % either way."""
        rng = random.Random(2)
        worker = a_worker(5_000.0)
        for i in range(300):
            rate = 10_000.0 / rng.uniform(0.8, 1.2)
            answered(worker, rng.randrange(100, 8000), tokens_per_s=rate, at=10.0 * i)

            assert i < 40 or 8_500.0 <= worker.speed.prefill_tokens_per_s <= 11_500.0

    def test_prompts_of_one_length_are_enough(self) -> None:
        """The prior determines how much of their time is overhead."""
        worker = a_worker(5_000.0)
        for i in range(100):
            answered(worker, 3000, tokens_per_s=10_000.0, at=10.0 * i)

        assert 9_500.0 <= worker.speed.prefill_tokens_per_s <= 10_500.0

    def test_an_outlier_counts_as_four_times_the_prediction_and_a_second(self) -> None:
        """Whether a prefill took six seconds or an hour makes no difference: 4 * 1.01 + 1 is the most."""
        clipped, wild = a_worker(), a_worker()
        answered(clipped, 1000, service_s=5.04)
        answered(wild, 1000, service_s=3600.0)

        assert clipped.speed.prefill_tokens_per_s == pytest.approx(wild.speed.prefill_tokens_per_s)
        assert clipped.prefill_s(1.0) == pytest.approx(wild.prefill_s(1.0))

    def test_short_prompts_that_took_long_leave_a_rate(self) -> None:
        """However absurd the samples, a rate is a number, and no higher than a million tokens per second."""
        worker = a_worker()
        for i in range(200):
            answered(worker, 1, service_s=1.0, at=20.0 * i)
            answered(worker, 4000, service_s=0.01, at=20.0 * i + 10.0)

        assert pytest.approx(1e6) == worker.speed.prefill_tokens_per_s

    def test_an_answer_that_does_not_stream_teaches_nothing(self) -> None:
        """Its prefill was not seen."""
        worker = a_worker()
        booking = booked(worker, 0.0, 1.0, streams=False)
        worker.release(booking, 60.0)
        worker.learn(booking, 60.0, uncached_tokens=10.0, completion_tokens=10)

        assert rates_of(a_worker().load(60.0)) == rates_of(worker.load(60.0))

    def test_an_answer_without_a_first_byte_teaches_nothing(self) -> None:
        """It ended before anything came."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.release(booking, 60.0)
        worker.learn(booking, 60.0, uncached_tokens=10.0, completion_tokens=10)

        assert rates_of(a_worker().load(60.0)) == rates_of(worker.load(60.0))


class TestLoads:
    def teach(
        self,
        worker: Worker,
        *,
        computed: int,
        loaded: int,
        load_tokens_per_s: float,
        times: int = 1,
        since: float = 0.0,
    ) -> None:
        """Prefills of a worker that computes 1,000 tokens per second."""
        for number in range(times):
            service_s = 0.01 + computed / 1000 + loaded / load_tokens_per_s
            loads = Loads(cpu=float(loaded))
            answered(worker, computed, service_s=service_s, loads=loads, at=since + 1000.0 * number)

    def test_nothing_to_load_takes_no_time(self) -> None:
        assert 0.0 == a_worker().speed.load_s(NO_LOADS)

    def test_a_load_takes_a_share_of_computing_until_it_is_measured(self) -> None:
        """A quarter of 1,000 tokens per second."""
        assert pytest.approx(0.25) == a_worker().speed.load_s(Loads(cpu=1000.0))

    @pytest.mark.parametrize("load_tokens_per_s", [800.0, 20_000.0])
    def test_the_time_of_a_load_is_learned(self, load_tokens_per_s: float) -> None:
        """A fifth or five times of what was assumed. The rate of computing stays."""
        worker = a_worker()
        self.teach(worker, computed=100, loaded=8000, load_tokens_per_s=load_tokens_per_s, times=20)

        assert pytest.approx(8000 / load_tokens_per_s, rel=0.1) == worker.speed.load_s(Loads(cpu=8000.0))
        assert pytest.approx(1000.0) == worker.speed.prefill_tokens_per_s

    def test_short_loads_leave_the_rate_of_computing_as_it_is(self) -> None:
        """They are taken off the measured time, at the rate that long loads have shown."""
        worker = a_worker()
        self.teach(worker, computed=100, loaded=8000, load_tokens_per_s=2000.0, times=60)
        self.teach(worker, computed=3000, loaded=2900, load_tokens_per_s=2000.0, times=60, since=100_000.0)

        assert pytest.approx(1000.0, rel=0.05) == worker.speed.prefill_tokens_per_s

    def test_an_outlier_counts_as_four_times_the_prediction_and_a_quarter_of_a_second(self) -> None:
        """However long a load was held up, 4 * .25 + .25 s is the most."""
        clipped, wild = a_worker(), a_worker()
        answered(clipped, 1, service_s=0.011 + 1.25, loads=Loads(cpu=1000.0))
        answered(wild, 1, service_s=3600.0, loads=Loads(cpu=1000.0))

        assert pytest.approx(clipped.speed.load_s(Loads(cpu=1000.0))) == wild.speed.load_s(Loads(cpu=1000.0))

    def test_a_worker_with_a_slow_link_differs_from_its_fleet(self) -> None:
        """Two workers load 20,000 and 5,000 tokens per second; what the first has shown is believed of a third."""
        rates = Rates(prefill_tokens_per_s=1000.0)
        fast, slow, new = (Worker(worker, 0.0, breaker=Breaker(), rates=rates) for worker in (A, B, C))
        for number in range(100):
            self.teach(fast, computed=10, loaded=8000, load_tokens_per_s=20_000.0, since=100.0 * number)
            self.teach(slow, computed=10, loaded=8000, load_tokens_per_s=5_000.0, since=100.0 * number)
        loads = Loads(cpu=8000.0)

        assert pytest.approx([0.4, 1.6], rel=0.1) == [fast.speed.load_s(loads), slow.speed.load_s(loads)]
        assert fast.speed.load_s(loads) < new.speed.load_s(loads) < slow.speed.load_s(loads)


class TestDecodeRates:
    def test_what_a_neighbor_costs_is_learned(self) -> None:
        """12 ms per token and 0.4 ms more for each request beside it, in batches of 1 to 20."""
        worker = a_worker()
        for i in range(100):
            batch = 1 + i % 20
            generated(worker, batch=batch, tpot_s=0.012 + 0.0004 * (batch - 1) / 2, at=100.0 * i)

        assert pytest.approx(0.0004, rel=0.15) == worker.load(10_000.0).decode_s_per_token

    def test_neighbors_are_those_of_begin_and_end_on_average(self) -> None:
        """None beside it at first and 32 in the end are 16: 28 ms a token is what the prior says of them."""
        worker = a_worker()
        measured = booked(worker, 0.0)
        worker.first_byte(measured, 0.0)
        for _ in range(32):
            worker.first_byte(booked(worker, 0.0), 0.0)
        worker.release(measured, 2.8)
        worker.learn(measured, 2.8, uncached_tokens=1.0, completion_tokens=101)

        assert pytest.approx(0.0005) == worker.load(2.8).decode_s_per_token

    @pytest.mark.parametrize("completion_tokens", [None, 0, 1])
    def test_an_answer_of_one_token_says_nothing_of_generation(self, completion_tokens: int | None) -> None:
        """There is no time between tokens; nor is there where the engine did not count."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.first_byte(booking, 1.0)
        worker.release(booking, 60.0)
        worker.learn(booking, 60.0, uncached_tokens=10.0, completion_tokens=completion_tokens)

        assert pytest.approx(0.0005) == worker.load(60.0).decode_s_per_token

    def test_an_outlier_is_clipped(self) -> None:
        """A caller that reads a token a minute, beside nine others, raises the cost of a request to 3 ms at most."""
        worker = a_worker()
        for i in range(100):
            batch = 1 + i % 20
            generated(worker, batch=batch, tpot_s=0.012 + 0.0004 * (batch - 1) / 2, at=100.0 * i)
        for _ in range(2):
            generated(worker, batch=20, tpot_s=60.0, at=20_000.0)

        assert worker.load(20_000.0).decode_s_per_token < 0.003


class TestGap:
    def stream(self, worker: Worker, gap_s: float, tokens: int = 101) -> None:
        booking = booked(worker, 0.0)
        worker.first_byte(booking, 1.0)
        ends_at = 1.0 + gap_s * (tokens - 1)
        worker.release(booking, ends_at)
        worker.learn(booking, ends_at, uncached_tokens=1.0, completion_tokens=tokens)

    def test_it_is_learned_from_streams(self) -> None:
        """Before, it is unknown."""
        worker = a_worker()
        assert worker.speed.usual_gap_s is None
        self.stream(worker, 0.04)

        assert pytest.approx(0.04) == worker.speed.usual_gap_s

    def test_a_worker_that_has_shown_none_has_that_of_its_fleet(self) -> None:
        """Until it shows its own."""
        rates = Rates(prefill_tokens_per_s=1000.0)
        one, other = (Worker(worker, 0.0, breaker=Breaker(), rates=rates) for worker in (A, B))
        self.stream(one, 0.04)
        assert pytest.approx(0.04) == other.speed.usual_gap_s
        self.stream(other, 0.01)

        assert pytest.approx([0.04, 0.01]) == [one.speed.usual_gap_s, other.speed.usual_gap_s]
