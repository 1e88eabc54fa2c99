"""The cache space of live sessions, in hand-computed cases and compared with a sum over all sessions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.live_sessions import LEARN_EVERY, LiveSessions, Session
from tests.routing.examples import A, B


def sent(live: LiveSessions, session: Session, worker: str = A, *, new_tokens: float = 100.0) -> None:
    live.sent(session, A if worker == A else B, new_tokens=new_tokens, all_tokens=1_000.0)


def learn(live: LiveSessions) -> None:
    """Sessions of two requests each, all of B, until the probabilities have been updated."""
    while True:
        session = Session()
        sent(live, session, B, new_tokens=0.0)
        sent(live, session, B, new_tokens=0.0)
        if live._uses >= LEARN_EVERY:
            return


def test_a_new_session_counts_in_full() -> None:
    """100 tokens are in the cache, and 50 more will follow. The other worker has no session."""
    live = LiveSessions()
    sent(live, Session())

    assert (150.0, 0.0) == (live.tokens(A, 50.0), live.tokens(B, 50.0))


def test_each_request_of_a_session_adds_its_new_tokens() -> None:
    """It stays one session, so the growth counts once."""
    live, session = LiveSessions(), Session()
    sent(live, session)
    sent(live, session, new_tokens=30.0)

    assert 180.0 == live.tokens(A, 50.0)


def test_a_session_has_no_more_tokens_than_its_prompt_and_answer() -> None:
    """The worker computed the same prompt again, because it had evicted it."""
    live, session = LiveSessions(), Session()
    sent(live, session, new_tokens=800.0)
    sent(live, session, new_tokens=900.0)

    assert 1_000.0 == live.tokens(A, 0.0)


def test_a_session_that_moves_leaves_nothing_behind() -> None:
    """The new worker holds only what it computed itself."""
    live, session = LiveSessions(), Session()
    sent(live, session, A)
    sent(live, session, B, new_tokens=70.0)

    assert (0.0, 70.0) == (live.tokens(A, 9.0), live.tokens(B, 0.0))


def test_a_worker_that_lost_its_cache_has_no_sessions() -> None:
    """A session that comes back later begins again with what is computed then."""
    live, session = LiveSessions(), Session()
    sent(live, session)
    live.forget_worker(A)
    assert 0.0 == live.tokens(A, 50.0)

    sent(live, session, new_tokens=20.0)
    assert 20.0 == live.tokens(A, 0.0)


def test_a_forgotten_session_does_not_count() -> None:
    """Forgetting it again, or before its first request was sent, changes nothing."""
    live, session = LiveSessions(), Session()
    sent(live, session)
    live.forget_session(session)
    live.forget_session(session)
    live.forget_session(Session())

    assert 0.0 == live.tokens(A, 50.0)


def test_sessions_that_never_continue_are_not_live() -> None:
    """64 sessions of one request: none of them came back."""
    live = LiveSessions()
    for _ in range(LEARN_EVERY):
        sent(live, Session())

    assert 0.0 == live.tokens(A, 50.0)


def test_a_long_pause_makes_a_session_unlikely_to_continue() -> None:
    """Sessions of B continue at once. The session of A has paused for longer than any session before."""
    live = LiveSessions()
    sent(live, Session(), A)
    learn(live)
    learn(live)

    assert 0.0 == live.tokens(A, 50.0)


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from([A, B]), st.integers(0, 500)), max_size=400))
def test_the_sum_is_that_of_all_sessions(requests: list[tuple[int, str, int]]) -> None:
    live, known = LiveSessions(), [Session() for _ in range(9)]
    for number, worker, new_tokens in requests:
        sent(live, known[number], worker, new_tokens=float(new_tokens))

    for worker in (A, B):
        of_worker = [s for s in known if s.worker is not None and s.worker is live._workers.get(worker)]
        weights = [live._chance(session.last_use // LEARN_EVERY) for session in of_worker]
        expected = sum(w * (session.tokens + 10.0) for w, session in zip(weights, of_worker, strict=True))
        assert live.tokens(worker, 10.0) == pytest.approx(expected, abs=1e-6)
