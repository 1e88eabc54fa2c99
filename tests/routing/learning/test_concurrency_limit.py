"""Limits that follow from the behavior of an engine."""

import math

from routing.learning.concurrency_limit import FRESH_S, ROOM_AT_FIRST, ConcurrencyLimit


def test_at_first_nothing_is_known() -> None:
    """No request is held for an unknown limit."""
    limit = ConcurrencyLimit()

    assert (math.inf, math.inf) == (limit.limit, limit.unseen(0.0))


def test_two_late_prefills_in_a_row_show_how_many_fit() -> None:
    """Seven generate; one more may try. One late prefill alone may have had a prompt that was not cached."""
    limit, one = ConcurrencyLimit(), ConcurrencyLimit()
    limit.began(7, late=True)
    limit.began(7, late=True)
    one.began(7, late=True)
    one.began(8, late=False)
    one.began(9, late=True)

    assert (8.0, math.inf) == (limit.limit, one.limit)


def test_late_prefills_of_long_prompts_show_nothing() -> None:
    """The limit is as before, and the next late prefill is the first again."""
    limit = ConcurrencyLimit()
    limit.began(7, late=True)
    limit.began(7, late=True)
    limit.was_explained()
    assert math.inf == limit.limit
    limit.was_explained()
    limit.began(9, late=True)

    assert math.inf == limit.limit


def test_prefills_in_time_make_room_for_more() -> None:
    """Each for one."""
    limit = ConcurrencyLimit()
    limit.began(7, late=True)
    limit.began(7, late=True)
    limit.began(8, late=False)
    limit.began(9, late=False)

    assert 10.0 == limit.limit


def test_a_queue_that_should_not_be_there_is_not_made_longer() -> None:
    """Three of ten requests wait, so seven run. The limit falls by at most a quarter: others may send as well."""
    limit, shared = ConcurrencyLimit(), ConcurrencyLimit()
    limit.engine_queue_reported(3.0, 2.0, 10, 0.0)
    shared.engine_queue_reported(30.0, 30.0, 10, 0.0)

    assert (8.0, 8.0) == (limit.limit, limit.unseen(1.0))
    assert 7.5 == shared.limit


def test_a_queue_that_was_to_be_expected_changes_nothing() -> None:
    """It is that of what was sent a little before its turn."""
    limit = ConcurrencyLimit()
    limit.engine_queue_reported(4.0, 4.0, 10, 0.0)
    most = limit.limit
    limit.engine_queue_reported(1.0, 0.0, 7, 5.0)

    assert most == limit.limit


def test_without_a_queue_there_is_room_for_more() -> None:
    """It grows by a quarter at each reading; where prefills cannot be seen to end, to twice the requests in flight."""
    limit = ConcurrencyLimit()
    limit.engine_queue_reported(2.0, 2.0, 10, 0.0)
    limit.engine_queue_reported(0.0, 0.0, 8, 5.0)

    assert (10.0, 16.0) == (limit.limit, limit.unseen(5.0))


def test_unseen_prefills_have_some_room_from_the_first_reading_on() -> None:
    """More with every answer that comes before it was expected, until what was reported is old."""
    limit = ConcurrencyLimit()
    limit.engine_queue_reported(0.0, 0.0, 0, 0.0)
    assert ROOM_AT_FIRST == limit.unseen(1.0)
    limit.answered_early()

    assert ROOM_AT_FIRST + 1.0 == limit.unseen(1.0)
    assert math.inf == limit.unseen(FRESH_S + 1.0)
