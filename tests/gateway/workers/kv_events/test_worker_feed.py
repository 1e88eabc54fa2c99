import pytest

from cache_index.confirmed import Confirmed
from cache_index.hit import Hit
from gateway.workers.kv_events.feed import Trust
from gateway.workers.kv_events.worker_feed import WorkerFeed
from routing.fleet import Fleet
from tests.routing.confirmed_examples import MODEL, exact_prefix, reporting_fleet, stored
from tests.routing.examples import A


@pytest.fixture
def reported() -> tuple[Fleet, Confirmed]:
    """Worker a, not trusted yet."""
    return reporting_fleet(A, trusted=False)


def feed_of(fleet: Fleet, confirmed: Confirmed) -> WorkerFeed:
    feed = WorkerFeed(A, confirmed, model=MODEL)
    feed.serve([fleet])
    return feed


def is_trusted(fleet: Fleet) -> bool:
    (worker,) = fleet
    return worker.is_trusted


def test_what_is_reported_goes_into_the_index(reported: tuple[Fleet, Confirmed]) -> None:
    """Under the name of the worker and in the scope of its model; a new life begins with nothing."""
    fleet, confirmed = reported
    feed = feed_of(fleet, confirmed)
    feed.restarted()
    feed.apply([stored("abc")])
    assert {A: Hit(3)} == confirmed.match(exact_prefix("abc"), 0.0)

    feed.restarted()
    assert {} == confirmed.match(exact_prefix("abc"), 0.0)


def test_only_a_live_stream_is_relied_on(reported: tuple[Fleet, Confirmed]) -> None:
    """A stream that catches up with the last moments is relied on as before, also if that was not at all."""
    fleet, confirmed = reported
    feed = feed_of(fleet, confirmed)
    states: list[Trust] = ["catching_up", "live", "catching_up", "stale", "catching_up", "live", "untrusted"]
    seen = []
    for state in states:
        feed.trusted(state)
        seen.append(is_trusted(fleet))

    assert [False, True, True, False, False, True, False] == seen
    assert "untrusted" == feed.state


def test_a_fleet_that_comes_later_is_reported_at_once(reported: tuple[Fleet, Confirmed]) -> None:
    """The stream goes on; another model has come to use the same worker."""
    fleet, confirmed = reported
    feed = feed_of(fleet, confirmed)
    feed.trusted("live")
    other, _ = reporting_fleet(A, trusted=False)
    feed.serve([fleet, other])

    assert (True, True) == (is_trusted(fleet), is_trusted(other))


def test_when_no_one_listens_nothing_counts(reported: tuple[Fleet, Confirmed]) -> None:
    """Reported blocks would only grow old."""
    fleet, confirmed = reported
    feed = feed_of(fleet, confirmed)
    feed.apply([stored("abc")])
    feed.trusted("live")
    feed.end()

    assert not is_trusted(fleet)
    assert {} == confirmed.match(exact_prefix("abc"), 0.0)


def test_a_fleet_that_goes_relies_on_nothing_any_more(reported: tuple[Fleet, Confirmed]) -> None:
    """Its model has another strategy now; the worker stays with both."""
    fleet, confirmed = reported
    other, _ = reporting_fleet(A, trusted=False)
    feed = feed_of(fleet, confirmed)
    feed.serve([fleet, other])
    feed.trusted("live")
    feed.serve([other])

    assert (False, True) == (is_trusted(fleet), is_trusted(other))


def test_after_its_end_it_hears_nothing(reported: tuple[Fleet, Confirmed]) -> None:
    """What a stream reports while it is being cancelled is not for the feed that has the worker now."""
    fleet, confirmed = reported
    former = feed_of(fleet, confirmed)
    former.end()
    former.apply([stored("xyz")])
    assert 0 == confirmed.held(A)

    feed = feed_of(fleet, confirmed)
    feed.apply([stored("abc")])
    feed.trusted("live")
    former.restarted()
    former.trusted("stale")

    assert ({A: Hit(3)}, True) == (confirmed.match(exact_prefix("abc"), 0.0), is_trusted(fleet))
    assert ("untrusted", "live") == (former.state, feed.state)
