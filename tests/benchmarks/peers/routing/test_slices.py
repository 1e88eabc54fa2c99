import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.routing.slices import (
    SLICES,
    MadeUp,
    Said,
    Session,
    Slicing,
    Turn,
    agentic,
    conversation,
    tau,
    turns_of,
)
from benchmarks.replay.recorded import CONVERSATION
from replay.trace import read_trace
from simulator.rendering import render_chat
from simulator.tokens import TokenSequence

LEAST_TOKENS = 7


def tokens_of(prompt: MadeUp | Said) -> TokenSequence:
    return TokenSequence.from_text(render_chat(prompt.messages(), add_generation_prompt=False))


@given(
    st.lists(st.integers(0, 2**31), max_size=6),
    st.integers(LEAST_TOKENS, 300),
    st.integers(LEAST_TOKENS, 300),
)
def test_a_made_up_prompt_is_as_long_as_its_blocks_and_what_follows_them(
    blocks: list[int], block_tokens: int, tail_tokens: int
) -> None:
    prompt = MadeUp(tuple(blocks), block_tokens, tail_tokens, number=1)

    assert len(blocks) * block_tokens + tail_tokens == len(tokens_of(prompt))


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=6), st.lists(st.integers(0, 2**31), min_size=1, max_size=6))
def test_made_up_prompts_share_the_tokens_of_the_blocks_they_share_and_no_more(
    one: list[int], other: list[int]
) -> None:
    first, second = (MadeUp(tuple(blocks), 64, 20, number) for number, blocks in enumerate((one, other)))
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    ids = zip(tokens_of(first).ids, tokens_of(second).ids, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ids))

    assert shared * 64 <= common < shared * 64 + 16


def test_a_body_asks_for_a_stream_of_so_many_tokens() -> None:
    body = json.loads(Turn(0.0, Said([{"role": "user", "content": "é"}]), 9).body())

    assert {
        "model": "tiny",
        "messages": [{"role": "user", "content": "é"}],
        "max_tokens": 9,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    } == body


def test_at_twice_the_load_all_times_are_half_as_long() -> None:
    session = Session(8.0, [Turn(0.0, Said([]), 1), Turn(6.0, Said([]), 1)])

    assert Session(4.0, [Turn(0.0, Said([]), 1), Turn(3.0, Said([]), 1)]) == session.at(2.0)


def test_a_chat_of_the_trace_is_a_session_of_one_turn_at_its_own_time() -> None:
    sessions = conversation(Slicing(40, None, 4, 1))
    recorded = read_trace(CONVERSATION).requests[:40]

    assert [1] * 40 == [len(session.turns) for session in sessions]
    assert sorted(session.begins_s for session in sessions) == [session.begins_s for session in sessions]
    # The recorder rounds to 3 s.
    assert all(0 <= session.begins_s - request.wait_s < 3 for session, request in zip(sessions, recorded, strict=True))
    assert [request.output_tokens for request in recorded] == [turn.output_tokens for turn in turns_of(sessions)]


def test_prompts_are_as_many_times_smaller_as_is_asked() -> None:
    sessions = conversation(Slicing(40, None, 4, 1))
    recorded = read_trace(CONVERSATION).requests[:40]
    prompts = [turn.prompt for turn in turns_of(sessions)]

    for prompt, request in zip(prompts, recorded, strict=True):
        assert isinstance(prompt, MadeUp)
        assert abs(request.prompt_tokens / 4 - len(tokens_of(prompt))) <= LEAST_TOKENS


def test_an_agent_goes_on_from_what_was_said_and_waits_as_recorded() -> None:
    sessions = agentic(Slicing(3, 5, 4, 1))
    first, second = (turn.prompt for turn in sessions[0].turns[:2])

    assert [5, 5, 5] == [len(session.turns) for session in sessions]
    assert [0.0] * 3 == [session.turns[0].wait_s for session in sessions]
    assert all(turn.wait_s > 0 for session in sessions for turn in session.turns[1:])
    assert all(0 <= session.begins_s <= 120 for session in sessions)
    assert isinstance(first, MadeUp)
    assert isinstance(second, MadeUp)
    assert first.messages()[:4] == second.messages()[:4]


def test_more_conversations_of_tau_than_recorded_share_only_the_system_prompt() -> None:
    """The 101st is the first one again, held by another user."""
    sessions = tau(Slicing(101, None, 1, 1))
    first_words = [list(session.turns[0].prompt.messages())[1]["content"] for session in sessions]
    again = [words for words in first_words if words.startswith("User 1: ")]

    assert 101 == len(sessions)
    assert 1 == len(again)
    assert again[0].removeprefix("User 1: ") in first_words


def test_conversations_of_tau_keep_their_text_and_get_times_from_the_seed() -> None:
    once, again, other = (tau(Slicing(5, None, 1, seed)) for seed in (1, 1, 2))

    assert once == again
    assert [session.begins_s for session in once] != [session.begins_s for session in other]
    for session in once:
        assert session.turns[0].wait_s == 0.0
        assert all(
            list(a.prompt.messages()) == list(b.prompt.messages())[: len(a.prompt.messages())]
            for a, b in itertools.pairwise(session.turns)
        )


@pytest.mark.parametrize("name", list(SLICES))
def test_every_prompt_of_a_slice_fits_into_the_cache_of_one_worker(name: str) -> None:
    """With its answer, at the size that is taken where no one says another."""
    cut = SLICES[name]
    size = min(cut.size, 100)
    for turn in turns_of(cut.sessions(Slicing(size, cut.most_turns, cut.shrink, 1))):
        prompt = turn.prompt
        if isinstance(prompt, MadeUp):
            tokens = len(prompt.blocks) * prompt.block_tokens + prompt.tail_tokens + turn.output_tokens
            assert tokens + 32 <= cut.rates.blocks // cut.shrink * 16
