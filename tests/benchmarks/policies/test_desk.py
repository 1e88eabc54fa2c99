from benchmarks.policies.desk import Desk
from benchmarks.policies.events import Events, EventsAndInFlight
from tests.benchmarks.policies.examples import a_setup, an_ask


def test_what_is_cached_need_not_be_computed() -> None:
    desk = Desk(a_setup(), Events(2))
    desk.stored(0, [1, 2])
    choice = desk.choice(an_ask(1, 2), 3.0)

    assert [2, 0] == choice.hits
    assert [10, 210] == choice.uncached_tokens
    assert 3.0 == choice.now


def test_the_block_of_the_last_token_is_computed_always() -> None:
    """A prompt of exactly two blocks, both held: an engine takes one of them."""
    desk = Desk(a_setup(), Events(2))
    desk.stored(0, [1, 2])

    assert [100, 200] == desk.choice(an_ask(1, 2, tokens=200), 0.0).uncached_tokens


def test_what_was_sent_is_booked_until_it_ends() -> None:
    """Uncached tokens until the first token, a request until the end; the index hears of both."""
    desk = Desk(a_setup(), EventsAndInFlight(2))
    desk.stored(1, [1])
    ask = an_ask(1, 2)
    desk.send(desk.choice(ask, 0.0), 1)

    assert 110 == desk.accounts[1].sent_tokens
    assert [0, 2] == desk.choice(an_ask(1, 2), 0.0).hits
    desk.first_token(ask, 1.0)
    assert [0, 1] == desk.choice(an_ask(1, 2), 1.0).hits
    assert (0, 1) == (desk.accounts[1].pending, desk.accounts[1].requests)
    desk.finished(ask)
    desk.removed(1, [1])
    assert [0, 0] == desk.choice(an_ask(1, 2), 1.0).hits
    assert 0 == desk.accounts[1].requests
