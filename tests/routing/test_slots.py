"""What an engine shows of how many requests it runs at one time."""

import math

from routing.slots import FRESH_S, ROOM_AT_FIRST, Slots


def test_at_first_nothing_is_known() -> None:
    """Nobody is held back for what nobody knows."""
    slots = Slots()

    assert (math.inf, math.inf) == (slots.most, slots.unseen(0.0))


def test_a_prefill_that_is_late_shows_how_many_fit() -> None:
    """Seven generate; one more may try."""
    slots = Slots()
    slots.began(7, late=True)

    assert 8.0 == slots.most


def test_prefills_in_time_make_room_for_more() -> None:
    """Each for one."""
    slots = Slots()
    slots.began(7, late=True)
    slots.began(8, late=False)
    slots.began(9, late=False)

    assert 10.0 == slots.most


def test_a_queue_that_should_not_be_there_is_not_made_longer() -> None:
    """Of ten that are there three wait: seven run. But never a quarter less at one time: others may send as well."""
    slots, shared = Slots(), Slots()
    slots.told(3.0, 2.0, 10, 0.0)
    shared.told(30.0, 30.0, 10, 0.0)

    assert (8.0, 8.0) == (slots.most, slots.unseen(1.0))
    assert 7.5 == shared.most


def test_a_queue_that_was_to_be_expected_changes_nothing() -> None:
    """It is that of what was sent a little before its turn."""
    slots = Slots()
    slots.told(4.0, 4.0, 10, 0.0)
    most = slots.most
    slots.told(1.0, 0.0, 7, 5.0)

    assert most == slots.most


def test_without_a_queue_there_is_room_for_more() -> None:
    """A quarter more at each reading; where nobody sees prefills end, twice as many as there are."""
    slots = Slots()
    slots.told(2.0, 2.0, 10, 0.0)
    slots.told(0.0, 0.0, 8, 5.0)

    assert (10.0, 16.0) == (slots.most, slots.unseen(5.0))


def test_unseen_prefills_have_some_room_from_the_first_reading_on() -> None:
    """More with every answer that comes before it was expected, until what was told is old."""
    slots = Slots()
    slots.told(0.0, 0.0, 0, 0.0)
    assert ROOM_AT_FIRST == slots.unseen(1.0)
    slots.answered_early()

    assert ROOM_AT_FIRST + 1.0 == slots.unseen(1.0)
    assert math.inf == slots.unseen(FRESH_S + 1.0)
