import itertools
import statistics
from collections.abc import Sequence

import pytest

from benchmarks.scenarios.conversations import BLOCK_TOKENS, Conversations
from replay.trace import Recorded

CHATS = Conversations(
    sessions=200,
    turns=(1, 5),
    system_tokens=300,
    opening_tokens=(100, 500),
    question_tokens=(10, 90),
    answer_tokens=(50, 250),
    think_s=4.0,
)


def sessions(seed: int = 1) -> list[list[Recorded]]:
    requests: Sequence[Recorded] = CHATS.trace(seed).requests
    return [list(session) for _, session in itertools.groupby(requests, key=lambda request: request.session)]


def test_a_turn_sends_all_that_was_said_before_it() -> None:
    """Prompt and answer of one turn are the beginning of the next prompt, and what follows is new."""
    for before, after in (pair for session in sessions() for pair in itertools.pairwise(session)):
        said = before.blocks + before.answer_blocks

        assert said == after.blocks[: len(said)]
        assert before.prompt_tokens + before.output_tokens + 10 <= after.prompt_tokens


def test_blocks_are_the_full_ones() -> None:
    for request in CHATS.trace(1).requests:
        assert request.prompt_tokens // BLOCK_TOKENS == len(request.blocks)
        both = (request.prompt_tokens + request.output_tokens) // BLOCK_TOKENS
        assert both == len(request.blocks + request.answer_blocks)


def test_sessions_have_the_system_prompt_in_common_and_nothing_else() -> None:
    """300 tokens are two full blocks."""
    every = [
        {block for request in session for block in request.blocks + request.answer_blocks} for session in sessions()
    ]

    assert all({0, 1} <= blocks for blocks in every)
    assert all({0, 1} == a & b for a, b in itertools.combinations(every[:40], 2))


def test_lengths_and_pauses_are_those_asked_for() -> None:
    """One to five turns; no pause before the first, four seconds in the mean before the others."""
    found = sessions()
    pauses_s = [request.wait_s for session in found for request in session[1:]]

    assert {1, 2, 3, 4, 5} == {len(session) for session in found}
    assert {0.0} == {session[0].wait_s for session in found}
    assert pytest.approx(4.0, rel=0.2) == statistics.fmean(pauses_s)
    assert all(400 <= session[0].prompt_tokens <= 800 for session in found)


def test_requests_are_numbered_in_their_order() -> None:
    """A replay knows them by it."""
    requests = CHATS.trace(1).requests

    assert list(range(len(requests))) == [request.number for request in requests]


def test_the_same_seed_makes_the_same_sessions() -> None:
    assert CHATS.trace(3) == CHATS.trace(3)
    assert CHATS.trace(3) != CHATS.trace(4)


def test_numbers_that_make_no_workload_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Conversations(0, (1, 2), 0, (1, 2), (1, 2), (1, 2), 0.0)
