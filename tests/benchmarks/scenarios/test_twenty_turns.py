import itertools

from benchmarks.scenarios.trial import CACHE_TOKENS
from benchmarks.scenarios.twenty_turns import CONVERSATIONS, LOAD, REPLICAS, TURNS, USERS


def test_every_conversation_has_twenty_turns() -> None:
    trace, workload = LOAD.made(1)
    sessions = itertools.groupby(trace.requests, key=lambda request: request.session)

    assert {TURNS} == {len(list(session)) for _, session in sessions}
    assert USERS == len(list(workload.begin()))
    assert 10 * USERS * TURNS == len(trace.requests)


def test_one_worker_cannot_hold_all_users() -> None:
    tokens = USERS * (CONVERSATIONS.system_tokens + sum(CONVERSATIONS.opening_tokens) // 2 + TURNS * 200)

    assert CACHE_TOKENS < tokens < REPLICAS * CACHE_TOKENS
