"""Facts about the sessions of the console."""

import itertools

import pytest

from gateway.api.admin_access import AdminKey
from gateway.console.sessions import Session, Sessions
from tests.gateway.examples import Clock

KEY = AdminKey("ow", "owner", "s3cret")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return a_store(clock)


def a_store(clock: Clock, *, max_sessions: int = 10) -> Sessions:
    numbers = itertools.count(1)
    new_token = lambda: f"token-{next(numbers)}"  # noqa: E731
    return Sessions(idle_s=600, max_s=3600, clock=clock, new_token=new_token, max_sessions=max_sessions)


def found(sessions: Sessions, token: str) -> Session:
    session = sessions.find(token)
    assert session is not None
    return session


def test_a_token_leads_to_its_session(sessions: Sessions) -> None:
    token = sessions.open(KEY)

    assert ("token-1", KEY, "token-2") == (token, found(sessions, token).key, found(sessions, token).csrf)


@pytest.mark.parametrize("token", [None, "", "token-2", "token-9", "TOKEN-1"])
def test_other_tokens_lead_nowhere(sessions: Sessions, token: str | None) -> None:
    """The token of forms is not the token of the session."""
    sessions.open(KEY)

    assert sessions.find(token) is None


def test_a_session_never_shows_its_tokens(sessions: Sessions) -> None:
    assert "token" not in repr(found(sessions, sessions.open(KEY)))


def test_a_session_ends_when_it_is_idle(sessions: Sessions, clock: Clock) -> None:
    token = sessions.open(KEY)
    clock.now += 599
    session = found(sessions, token)
    clock.now += 599
    assert sessions.find(token) is session
    clock.now += 600

    assert (None, True) == (sessions.find(token), session.ended.is_set())


def test_looking_at_a_session_without_use_does_not_prolong_it(sessions: Sessions, clock: Clock) -> None:
    token = sessions.open(KEY)
    clock.now += 599
    assert sessions.find(token, is_use=False) is not None
    clock.now += 1

    assert sessions.find(token) is None


def test_a_session_ends_after_its_longest_time_in_any_case(sessions: Sessions, clock: Clock) -> None:
    token = sessions.open(KEY)
    for _ in range(7):
        clock.now += 500
        assert sessions.find(token) is not None
    clock.now += 100

    assert (None, 0) == (sessions.find(token), len(sessions))


def test_an_ended_session_is_unknown_at_once(sessions: Sessions) -> None:
    token = sessions.open(KEY)
    session = found(sessions, token)
    sessions.end(session)

    assert (None, False, True) == (sessions.find(token), sessions.is_live(session), session.ended.is_set())


def test_all_sessions_can_end_together(sessions: Sessions) -> None:
    tokens = [sessions.open(KEY), sessions.open(KEY)]
    sessions.end_all()

    assert [None, None] == [sessions.find(token) for token in tokens]


def test_the_number_of_sessions_is_bounded(clock: Clock) -> None:
    """The session that was not used for the longest time ends."""
    sessions = a_store(clock, max_sessions=2)
    first, second = sessions.open(KEY), sessions.open(KEY)
    clock.now += 1
    sessions.find(first)
    third = sessions.open(KEY)

    assert [True, False, True] == [sessions.find(token) is not None for token in (first, second, third)]


def test_expired_sessions_make_room_first(clock: Clock) -> None:
    sessions = a_store(clock, max_sessions=2)
    sessions.open(KEY)
    clock.now += 600
    second = sessions.open(KEY)
    sessions.open(KEY)

    assert (2, True) == (len(sessions), sessions.find(second) is not None)


def test_notices_are_shown_once_and_are_few(sessions: Sessions) -> None:
    session = found(sessions, sessions.open(KEY))
    for number in range(10):
        session.notify("done", f"notice {number}")

    assert [("done", f"notice {number}") for number in range(2, 10)] == session.take_notices()
    assert [] == session.take_notices()
