"""The contract that the fleet and the dispatcher expect of any `Strategy`."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.candidate import Candidate
from routing.request import Request
from routing.strategies import NAMES, STRATEGIES
from routing.strategy import LoadOnly
from tests.routing.examples import a_candidate, a_request, seeded

SHARES = st.floats(0.0, 1.0)
SECONDS = st.floats(0.0, 1e6)
COUNTS = st.integers(0, 10_000)
CANDIDATES = st.lists(
    st.builds(
        a_candidate,
        st.text(min_size=1, max_size=5),
        hit_tokens=st.floats(0.0, 1e6),
        backlog_s=SECONDS,
        pending=COUNTS,
        decodes=COUNTS,
        busy_share=SHARES,
        prefill_s_per_token=st.floats(1e-6, 1.0),
        decode_s_per_token=SHARES,
        admits=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda candidate: candidate.worker,
)
REQUESTS = st.builds(
    a_request,
    prompt_tokens=st.floats(0.0, 1e6),
    output_tokens=st.floats(0.0, 1e6),
    session=st.none() | st.text(st.characters(), max_size=20),
    streams=st.booleans(),
    reads_cache=st.booleans(),
)
pytestmark = pytest.mark.parametrize("name", NAMES)


@settings(max_examples=50, deadline=None)
@given(request_=REQUESTS, candidates=CANDIDATES)
def test_no_candidate_is_lost_or_doubled(name: str, request_: Request, candidates: list[Candidate]) -> None:
    """An order has every candidate, as it was given, exactly once."""
    order = STRATEGIES[name](seeded()).rank(request_, candidates)

    assert sorted(map(id, candidates)) == sorted(map(id, order))


@settings(max_examples=50, deadline=None)
@given(request_=REQUESTS, candidates=CANDIDATES)
def test_the_candidates_given_are_left_alone(name: str, request_: Request, candidates: list[Candidate]) -> None:
    """The order is a list of its own."""
    before = list(candidates)
    order = STRATEGIES[name](seeded()).rank(request_, candidates)
    order.reverse()

    assert before == candidates


def test_no_candidates_have_an_empty_order(name: str) -> None:
    """Every time one asks."""
    strategy = STRATEGIES[name](seeded())

    assert [[], [], []] == [strategy.rank(a_request(session=session), ()) for session in (None, "alice", None)]


def test_a_single_candidate_is_the_order(name: str) -> None:
    only = a_candidate("a", backlog_s=1e9, pending=1000, busy_share=1.0, admits=False)

    assert [only] == STRATEGIES[name](seeded()).rank(a_request(session="alice"), [only])


@pytest.mark.parametrize("session", ["", "\ud800", "\0", "a\nb", "🦆" * 1000, "ünïcödé"])
def test_any_string_is_a_session(name: str, session: str) -> None:
    """JSON may carry a lone surrogate."""
    candidates = [a_candidate("a"), a_candidate("b"), a_candidate("\udfff")]

    assert 3 == len(STRATEGIES[name](seeded()).rank(a_request(session=session), candidates))


@settings(max_examples=50, deadline=None)
@given(request_=REQUESTS, candidates=CANDIDATES)
def test_the_same_seed_and_history_give_the_same_orders(
    name: str, request_: Request, candidates: list[Candidate]
) -> None:
    """A replay in virtual time can be repeated."""
    one, other = STRATEGIES[name](seeded(3)), STRATEGIES[name](seeded(3))
    for _ in range(3):
        assert one.rank(request_, candidates) == other.rank(request_, candidates)


def test_over_many_requests_every_idle_worker_comes_first(name: str) -> None:
    """No strategy starves a worker that is as good as the others."""
    strategy = STRATEGIES[name](seeded())
    idle = [a_candidate("a"), a_candidate("b"), a_candidate("c")]
    first = {strategy.rank(a_request(session=f"session {i}"), idle)[0].worker for i in range(100)}

    assert {"a", "b", "c"} == first


@settings(max_examples=50, deadline=None)
@given(requests=st.lists(REQUESTS, max_size=4), candidates=CANDIDATES)
def test_an_explanation_is_what_the_next_request_gets(
    name: str, requests: list[Request], candidates: list[Candidate]
) -> None:
    """Turns and ties included, whatever has been ranked before."""
    strategy = STRATEGIES[name](seeded())
    for request in requests:
        explained = strategy.explain(request, candidates)

        assert explained.order == strategy.rank(request, candidates)


@settings(max_examples=50, deadline=None)
@given(request_=REQUESTS, candidates=CANDIDATES)
def test_explaining_changes_nothing(name: str, request_: Request, candidates: list[Candidate]) -> None:
    silent, asked = STRATEGIES[name](seeded(3)), STRATEGIES[name](seeded(3))
    before = list(candidates)
    for _ in range(3):
        assert asked.explain(request_, candidates) == asked.explain(request_, candidates)
        assert silent.rank(request_, candidates) == asked.rank(request_, candidates)
    assert before == candidates


@settings(max_examples=50, deadline=None)
@given(request_=REQUESTS, candidates=CANDIDATES)
def test_an_explanation_names_what_decides(name: str, request_: Request, candidates: list[Candidate]) -> None:
    explained = STRATEGIES[name](seeded()).explain(request_, candidates)
    costs_s = [explained.costs_s[candidate.worker] for candidate in explained.order if explained.costs_s]

    assert explained.effective in {*NAMES, *get_args(LoadOnly)}
    assert sorted(costs_s) == costs_s
    assert explained.costs_s.keys() in (set(), {candidate.worker for candidate in candidates})
