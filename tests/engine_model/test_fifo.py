import pytest

from engine_model.blocks import BlockPool
from engine_model.engine import Finished, FirstToken
from engine_model.fifo import FifoEngine
from engine_model.host_tier import HostTier
from engine_model.request import EngineRequest
from engine_model.timing import Timing


def times(engine: FifoEngine) -> dict[tuple[str, str], float]:
    """All events to come, by kind and request."""
    return {(type(event).__name__, event.request_id): event.at for event in engine.advance(1e9)}


def test_prefills_run_one_after_the_other() -> None:
    """The second of two waits for the first: 0.01 + 5000/R, then 0.01 + 2000/R beside one running decode."""
    engine = FifoEngine(BlockPool(1000))
    engine.submit(EngineRequest("a", 5000, 101, []), 0.0)
    engine.submit(EngineRequest("b", 2000, 11, []), 0.0)
    seen = times(engine)

    assert 0.51 == pytest.approx(seen["FirstToken", "a"])
    assert 0.51 + 0.01 + 0.2 * 1.004 == pytest.approx(seen["FirstToken", "b"])


def test_time_per_token_is_fixed_when_decode_starts() -> None:
    """a decodes alone at 12 ms although b joins; b at 12.4 ms although a leaves."""
    engine = FifoEngine(BlockPool(1000))
    engine.submit(EngineRequest("a", 5000, 101, []), 0.0)
    engine.submit(EngineRequest("b", 2000, 201, []), 0.0)
    seen = times(engine)

    assert 0.51 + 100 * 0.012 == pytest.approx(seen["Finished", "a"])
    assert 0.7208 + 200 * 0.0124 == pytest.approx(seen["Finished", "b"])


def test_the_head_of_the_line_waits_for_its_blocks() -> None:
    """b does not fit beside a, and c, which would, does not overtake it."""
    engine = FifoEngine(BlockPool(10))
    engine.submit(EngineRequest("a", 100, 11, []), 0.0)  # 7 of 10 blocks, until 0.02 + 10 * 0.012
    engine.submit(EngineRequest("b", 100, 1, []), 0.0)
    engine.submit(EngineRequest("c", 10, 1, []), 0.0)

    assert 2 == engine.load(0.01).waiting
    seen = times(engine)
    assert 0.14 == pytest.approx(seen["Finished", "a"])
    assert 0.14 + 0.02 == pytest.approx(seen["FirstToken", "b"])
    assert 0.16 + 0.011 == pytest.approx(seen["FirstToken", "c"])


def test_a_replay_costs_two_events_per_request() -> None:
    """Without token events, only the first token and the end are reported, however long the answer."""
    engine = FifoEngine(BlockPool(100_000))
    engine.submit(EngineRequest("a", 200_000, 100_000, []), 0.0)

    assert [FirstToken, Finished] == [type(event) for event in engine.advance(1e9)]


def test_tokens_of_running_decodes_are_in_the_load() -> None:
    """The count grows as time passes, not only when a request ends, and an abort keeps what was generated."""
    engine = FifoEngine(BlockPool(1000))
    engine.submit(EngineRequest("a", 100, 101, []), 0.0)
    engine.advance(0.02)

    assert 1 == engine.load(0.02).generation_tokens
    assert 11 == engine.load(0.02 + 10 * 0.012).generation_tokens
    engine.abort("a", 0.02 + 20 * 0.012)
    assert 21 == engine.load(9.0).generation_tokens


def test_a_decode_that_takes_no_time_ends_at_once() -> None:
    """A tpot of 0 is allowed."""
    engine = FifoEngine(BlockPool(1000), Timing(tpot_s=0, tpot_slope_s=0))
    engine.submit(EngineRequest("a", 100, 101, []), 0.0)
    seen = times(engine)

    assert seen["FirstToken", "a"] == seen["Finished", "a"]


def test_an_aborted_decode_leaves_its_full_blocks_cached() -> None:
    """16 prompt tokens and 17 output tokens by the time of the abort: two full blocks."""
    engine = FifoEngine(BlockPool(100))
    engine.submit(EngineRequest("a", 16, 100, ["0", "1", "2"]), 0.0)
    engine.abort("a", 0.0116 + 16 * 0.012)
    engine.advance(1.0)
    engine.submit(EngineRequest("b", 100, 1, ["0", "1", "2", "3", "4", "5"]), 1.0)

    first = engine.advance(2.0)[0]
    assert isinstance(first, FirstToken)
    assert 32 == first.cached_tokens


def test_an_abort_in_the_last_step_keeps_the_whole_prompt() -> None:
    """1,000 tokens are one step, which takes 0.11 s with the fixed 10 ms."""
    engine = FifoEngine(BlockPool(100))
    engine.submit(EngineRequest("a", 1000, 5, range(62)), 0.0)
    engine.abort("a", 0.005)
    engine.submit(EngineRequest("b", 1000, 1, range(62)), 0.02)

    first = engine.advance(9.0)[0]
    assert isinstance(first, FirstToken)
    assert 992 == first.cached_tokens
    assert pytest.approx(0.11 + 0.01 + 0.0008) == first.at


def test_a_step_has_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="chunk_tokens must be at least 1, got 0"):
        FifoEngine(BlockPool(100), chunk_tokens=0)


class TestPulls:
    def test_missing_blocks_come_from_the_peer_before_the_prefill(self) -> None:
        """The peer holds the first eight of ten blocks: 30 ms and 128 tokens to pull, 33 tokens to compute."""
        peer = HostTier(100)
        peer.store(range(8))
        engine = FifoEngine(BlockPool(1000, host=HostTier(100)))
        engine.submit(EngineRequest("a", 161, 1, range(10), peer=peer), 0.0)
        [first, _] = engine.advance(1e9)

        assert isinstance(first, FirstToken)
        assert 128 == first.cached_tokens
        assert 0.03 + 128 / 100_000 + 0.01 + 33 / 10_000 == pytest.approx(first.at)

    def test_pulled_blocks_are_copies(self) -> None:
        """Afterwards the engine loads them from its own host memory, and the peer has them still."""
        own, peer = HostTier(100), HostTier(100)
        peer.store(range(10))
        engine = FifoEngine(BlockPool(1000, host=own))
        engine.submit(EngineRequest("a", 161, 1, range(10), peer=peer), 0.0)
        engine.advance(1e9)

        assert (10, 10) == (own.match(range(10)), peer.match(range(10)))

    def test_what_the_peer_lacks_is_computed(self) -> None:
        engine = FifoEngine(BlockPool(1000, host=HostTier(100)))
        engine.submit(EngineRequest("a", 161, 1, range(10), peer=HostTier(1)), 0.0)
        [first, _] = engine.advance(1e9)

        assert 0.01 + 161 / 10_000 == pytest.approx(first.at)

    def test_an_engine_without_host_memory_cannot_pull(self) -> None:
        peer = HostTier(100)
        peer.store(range(10))
        engine = FifoEngine(BlockPool(1000))
        engine.submit(EngineRequest("a", 161, 1, range(10), peer=peer), 0.0)
        [first, _] = engine.advance(1e9)

        assert isinstance(first, FirstToken)
        assert 0 == first.cached_tokens
