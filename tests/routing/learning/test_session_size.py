"""The number of requests in a session, and the tokens that each of them adds."""

import pytest

from routing.learning.session_size import SessionSize


def sent(size: SessionSize, *, sessions: int, requests_each: int) -> None:
    for _ in range(sessions):
        for number in range(requests_each):
            size.sent(begins_session=number == 0)


def test_a_session_has_one_request_before_anything_is_learned() -> None:
    assert 1.0 == SessionSize().turns(0)


def test_the_number_of_requests_is_learned_from_how_many_begin_a_session() -> None:
    """Ten requests for each beginning."""
    size = SessionSize()
    sent(size, sessions=200, requests_each=10)

    assert 10.0 == pytest.approx(size.turns(0), rel=0.02)


def test_requests_that_all_begin_a_session_make_sessions_of_one_request() -> None:
    size = SessionSize()
    sent(size, sessions=500, requests_each=1)

    assert 1.0 == size.turns(0)


def test_recent_requests_count_most() -> None:
    """Sessions of one request were followed by 5,000 requests in sessions of five."""
    size = SessionSize()
    sent(size, sessions=1_000, requests_each=1)
    sent(size, sessions=1_000, requests_each=5)

    assert 5.0 == pytest.approx(size.turns(0), rel=0.03)


def test_sessions_of_running_requests_are_not_counted() -> None:
    """They have not ended: 20 sessions of ten requests each, of which ten are running."""
    size = SessionSize()
    sent(size, sessions=20, requests_each=10)

    assert [9.5, 19.8] == [pytest.approx(size.turns(in_flight), rel=0.02) for in_flight in (0, 10)]


def test_there_are_never_more_requests_than_were_sent() -> None:
    """More requests run than sessions are known to have begun."""
    size = SessionSize()
    sent(size, sessions=1, requests_each=3)

    assert 4.0 == pytest.approx(size.turns(50), rel=0.01)


def test_added_tokens_follow_recent_answers() -> None:
    """Each answer has a fiftieth of the weight."""
    size = SessionSize(256.0)
    size.answered(1_256.0)
    assert 276.0 == size.new_tokens

    for _ in range(500):
        size.answered(1_256.0)
    assert 1_256.0 == pytest.approx(size.new_tokens, rel=0.01)


def test_long_prompts_count_by_their_length() -> None:
    """One token of 100 and 300 is in the prompt of 300 with a probability of three quarters."""
    size = SessionSize()
    assert 0.0 == size.long_prompt_tokens
    size.asked(100.0)
    size.asked(300.0)

    assert 250.0 == pytest.approx(size.long_prompt_tokens, rel=0.001)
