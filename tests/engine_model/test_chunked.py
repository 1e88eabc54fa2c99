from itertools import pairwise

import pytest

from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.engine import EngineEvent, Finished, FirstToken, Preempted, Token
from engine_model.request import EngineRequest


def first_tokens(events: list[EngineEvent]) -> dict[str, float]:
    return {event.request_id: event.at for event in events if isinstance(event, FirstToken)}


def test_prefills_share_a_step() -> None:
    """Two prompts within one budget come out together: two fixed costs and 2,000 tokens."""
    engine = ChunkedEngine(BlockPool(1000))
    engine.submit(
        EngineRequest("warm-up", 10, 1, []), 0.0
    )  # a request that comes to an idle engine starts a step alone
    engine.submit(EngineRequest("a", 1000, 1, []), 0.001)
    engine.submit(EngineRequest("b", 1000, 1, []), 0.002)
    seen = first_tokens(engine.advance(10.0))

    assert 0.011 + 0.22 == pytest.approx(seen["a"])
    assert seen["a"] == seen["b"]


def test_a_long_prefill_leaves_room_for_decodes() -> None:
    """While 20,000 tokens are prefilled in chunks, the other request gets a token with every step."""
    engine = ChunkedEngine(BlockPool(4000))
    engine.submit(EngineRequest("short", 10, 100, []), 0.0)
    engine.advance(0.02)
    engine.submit(EngineRequest("long", 20_000, 1, []), 0.02)
    events = engine.advance(100.0)
    done = first_tokens(events)["long"]
    between = [event.at for event in events if isinstance(event, Token) and 0.023 < event.at <= done]

    assert 10 == len(between)
    longest_step_s = 0.01 + 2047 * 1.004 / 10_000 + 0.012
    assert max(b - a for a, b in pairwise(between)) <= longest_step_s + 1e-9


def test_the_pace_of_a_batch() -> None:
    """Eight decodes take 12 + 7 * 0.4 ms per token, as in the fifo model."""
    engine = ChunkedEngine(BlockPool(1000))
    for number in range(8):
        engine.submit(EngineRequest(f"r{number}", 10, 200, []), 0.0)
    at = [event.at for event in engine.advance(1.0) if event.request_id == "r3"]

    assert 0.0148 == pytest.approx(at[-1] - at[-2])


def test_no_more_sequences_run_than_allowed() -> None:
    """The third of three waits for a seat, not for blocks."""
    engine = ChunkedEngine(BlockPool(1000), max_num_seqs=2)
    for name in "abc":
        engine.submit(EngineRequest(name, 10, 5, []), 0.0)
    engine.advance(0.03)

    load = engine.load(0.03)
    assert (2, 1) == (load.running, load.waiting)


def test_the_youngest_is_preempted_and_recovers() -> None:
    """When decode finds no block, the youngest loses its own, and gets all its tokens in the end."""
    engine = ChunkedEngine(BlockPool(10))
    for name in "ab":
        engine.submit(EngineRequest(name, 60, 60, [f"{name}{number}" for number in range(7)]), 0.0)
    events = engine.advance(100.0)

    assert {"b"} == {event.request_id for event in events if isinstance(event, Preempted)}
    for name in "ab":
        mine = [event for event in events if event.request_id == name and not isinstance(event, Preempted)]
        assert [FirstToken] + [Token] * 59 + [Finished] == [type(event) for event in mine]
    assert engine.load(100.0).preemptions >= 1


def test_a_preemption_is_no_hit() -> None:
    """What a preempted request finds of its own blocks does not count as a hit of its prompt."""
    engine = ChunkedEngine(BlockPool(10))
    for name in "ab":
        engine.submit(EngineRequest(name, 60, 60, [f"{name}{number}" for number in range(7)]), 0.0)
    engine.advance(100.0)

    load = engine.load(100.0)
    assert (120, 0) == (load.prefix_query_tokens, load.prefix_hit_tokens)


def test_the_budget_holds_a_token_for_every_sequence() -> None:
    """Otherwise some decodes would starve."""
    with pytest.raises(ValueError, match=r"max_num_batched_tokens \(8\) must be at least max_num_seqs \(16\)"):
        ChunkedEngine(BlockPool(10), max_num_batched_tokens=8, max_num_seqs=16)


def test_only_what_has_been_computed_is_a_hit() -> None:
    engine = ChunkedEngine(BlockPool(1000))
    hashes = [f"a{number}" for number in range(250)]
    engine.submit(EngineRequest("a", 4000, 1, hashes), 0.0)  # a first step of 2,048 tokens, then 1,952
    engine.submit(EngineRequest("b", 4000, 1, hashes), 0.1)
    events = engine.advance(100.0)

    assert {"a": 0, "b": 2048} == {e.request_id: e.cached_tokens for e in events if isinstance(e, FirstToken)}
