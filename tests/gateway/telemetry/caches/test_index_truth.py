"""Predicted against reported hits of a model with three workers."""

from gateway.protocol.usage import Usage
from gateway.telemetry.caches.index_truth import IndexTruth, IndexTruths, TruthMinute
from tests.fakes.intake import some_counters
from tests.gateway.telemetry.caches.examples import Observed, Streams
from tests.routing.examples import A, B, C, a_request


async def truth_of(observed: Observed) -> IndexTruth:
    return await IndexTruths(observed.activity.history, observed.streams).of(observed.model, [A, B, C])


async def test_a_minute_and_the_current_one() -> None:
    observed = Observed(streams=Streams({A: some_counters(trust="live", lag_s=0.5, gaps=2)}))
    request = a_request("abcdefghijklmnop")
    for cached in (128, 192):
        observed.activity.observe([observed.answered(request, usage=Usage(256, 1, cached), hit_tokens=192.0)])
        observed.wall_clock.now += 60.0
        if cached == 128:
            observed.activity.end_minute()
    (worker, *_) = (await truth_of(observed)).workers

    assert (
        TruthMinute(1060.0, 1, 256, 192, 128, 0.6667, "live", 0.5, gaps=2, lost_batches=0, restarts=0, rebuilds=0),
        TruthMinute(None, 1, 256, 192, 192, 1.0, None, None, gaps=0, lost_batches=0, restarts=0, rebuilds=0),
    ) == worker.minutes


async def test_the_state_of_an_event_stream() -> None:
    stream = some_counters(
        trust="stale", doubt="lost", lag_s=1.5, connections=2, gaps=3, replays=4, lost_batches=5, restarts=6, rebuilds=7
    )
    found = await truth_of(Observed(streams=Streams({B: stream})))
    (without, worker, _) = found.workers

    assert ("stale", "lost", 1.5, 2, 3, 4, 5, 6, 7) == (
        *(worker.stream, worker.doubt, worker.lag_s, worker.connections),
        *(worker.gaps, worker.replays, worker.lost_batches, worker.restarts, worker.rebuilds),
    )
    assert (None, None, None, 0) == (without.stream, without.doubt, without.lag_s, without.gaps)


async def test_the_source_and_the_accuracy_that_routing_uses() -> None:
    trusted, untrusted = await truth_of(Observed(trusted=True)), await truth_of(Observed())

    assert ("reported", 1.0, False) == (
        trusted.workers[0].source,
        trusted.workers[0].accuracy,
        trusted.workers[0].is_unreliable,
    )
    assert "predicted" == untrusted.workers[0].source


async def test_a_worker_that_left_is_not_shown() -> None:
    observed = Observed()
    observed.model.fleet.set_workers([A], 100.0)

    assert ["a"] == [worker.worker for worker in (await truth_of(observed)).workers]


async def test_many_workers_are_shown() -> None:
    """Other tasks run in between."""
    observed = Observed()
    truths = IndexTruths(observed.activity.history, observed.streams)

    assert 30 == len((await truths.of(observed.model, [A] * 30)).workers)
