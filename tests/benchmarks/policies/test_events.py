import pytest

from benchmarks.policies.events import Events, EventsAndInFlight
from tests.benchmarks.policies.examples import an_ask


@pytest.mark.parametrize("index", [Events(2), EventsAndInFlight(2)])
def test_what_engines_tell_is_held(index: Events | EventsAndInFlight) -> None:
    """Until they tell that it is gone."""
    index.stored(0, [1, 2])
    index.stored(1, [1])

    assert [2, 1] == index.hits(an_ask(1, 2, 3))
    index.removed(0, [2])
    assert [1, 1] == index.hits(an_ask(1, 2, 3))


def test_events_alone_know_nothing_of_what_is_sent() -> None:
    """The same prompt a moment later seems new everywhere."""
    index = Events(2)
    index.sent(0, an_ask(1, 2))

    assert [0, 0] == index.hits(an_ask(1, 2))


class TestInFlight:
    def test_what_is_sent_counts_until_its_first_token(self) -> None:
        """From then on only what the engine reports."""
        index = EventsAndInFlight(2)
        ask = an_ask(1, 2)
        index.sent(1, ask)

        assert [0, 2] == index.hits(an_ask(1, 2, 3))
        index.first_token(1, ask)
        assert [0, 0] == index.hits(an_ask(1, 2, 3))

    def test_a_block_is_there_as_long_as_any_reason_is(self) -> None:
        """Two requests in flight have it, and then the engine does."""
        index = EventsAndInFlight(1)
        first, second = an_ask(1, 2), an_ask(1)
        index.sent(0, first)
        index.sent(0, second)
        index.first_token(0, first)

        assert [1] == index.hits(an_ask(1, 2))
        index.stored(0, [1])
        index.first_token(0, second)
        assert [1] == index.hits(an_ask(1, 2))

    def test_an_eviction_takes_nothing_from_what_is_in_flight(self) -> None:
        """The block will be computed again, before what is sent next."""
        index = EventsAndInFlight(1)
        index.stored(0, [1])
        index.sent(0, an_ask(1))
        index.removed(0, [1])

        assert [1] == index.hits(an_ask(1))
