"""Facts about every timing model."""

import random
from collections.abc import Callable

import pytest

from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.engine import DuplicateRequest, Engine, EngineEvent, Finished, FirstToken, RequestTooLarge, Token
from engine_model.fifo import FifoEngine
from engine_model.host_tier import HostTier, LoadTiming
from engine_model.request import EngineRequest

MakeEngine = Callable[[BlockPool], Engine]


@pytest.fixture(params=["fifo", "chunked"])
def make_engine(request: pytest.FixtureRequest) -> MakeEngine:
    if request.param == "fifo":
        return lambda pool: FifoEngine(pool, token_events=True)
    return ChunkedEngine


def chain(name: str, blocks: int) -> list[str]:
    return [f"{name}{number}" for number in range(blocks)]


def run_dry(engine: Engine) -> list[EngineEvent]:
    """Advance from event to event until nothing is left."""
    events: list[EngineEvent] = []
    while (at := engine.next_event_at()) is not None:
        due = engine.advance(at)
        assert due or (later := engine.next_event_at()) is None or later > at
        events.extend(due)
    return events


def crowd(seed: int, count: int = 60) -> list[tuple[float, EngineRequest]]:
    """Requests over shared prefixes, by arrival."""
    draw = random.Random(seed)
    arrivals = sorted(draw.uniform(0, 2) for _ in range(count))
    made = []
    for number, at in enumerate(arrivals):
        prompt, output = draw.randint(1, 600), draw.randint(1, 120)
        shared = chain(draw.choice("abc"), prompt // 16)
        keep = draw.randint(0, len(shared))
        hashes = [*shared[:keep], *chain(f"own{number}-", (prompt + output) // 16 - keep)]
        made.append((at, EngineRequest(f"r{number}", prompt, output, hashes)))
    return made


def test_a_request_alone(make_engine: MakeEngine) -> None:
    """1,000 tokens at 10,000/s and the fixed 10 ms give the first token at 0.11 s; then one each 12 ms."""
    engine = make_engine(BlockPool(100))
    engine.submit(EngineRequest("r", 1000, 3, chain("a", 62)), 5.0)
    events = run_dry(engine)

    assert [FirstToken, Token, Token, Finished] == [type(event) for event in events]
    assert [5.11, 5.122, 5.134, 5.134] == pytest.approx([event.at for event in events])


def test_a_warm_prefix_is_not_computed_again(make_engine: MakeEngine) -> None:
    """The second time, 62 full blocks of 16 tokens are cached and 8 tokens are left."""
    engine = make_engine(BlockPool(100))
    for at in (0.0, 1.0):
        engine.submit(EngineRequest("r", 1000, 1, chain("a", 62)), at)
        first = engine.advance(at + 0.5)[0]

    assert isinstance(first, FirstToken)
    assert 1.0108 == pytest.approx(first.at)
    assert 992 == first.cached_tokens
    load = engine.load(2.0)
    assert (2000, 992) == (load.prefix_query_tokens, load.prefix_hit_tokens)


def test_one_token_is_always_computed(make_engine: MakeEngine) -> None:
    engine = make_engine(BlockPool(100))
    for at in (0.0, 1.0):
        engine.submit(EngineRequest("r", 64, 1, chain("a", 4)), at)
        first = engine.advance(at + 0.5)[0]

    assert isinstance(first, FirstToken)
    assert 1.0116 == pytest.approx(first.at)
    assert 48 == first.cached_tokens


def test_the_answer_is_cached_but_for_its_last_token(make_engine: MakeEngine) -> None:
    """16 prompt and 17 output tokens leave two full blocks; with 16 output tokens the last one's KV is missing."""
    hits = []
    for output in (17, 16):
        engine = make_engine(BlockPool(100))
        engine.submit(EngineRequest("r", 16, output, chain("a", 2)), 0.0)
        run_dry(engine)
        engine.submit(EngineRequest("next", 64, 1, chain("a", 4)), 10.0)
        hits += [event.cached_tokens for event in run_dry(engine) if isinstance(event, FirstToken)]

    assert [32, 16] == hits


def test_everything_finishes_in_a_small_cache(make_engine: MakeEngine) -> None:
    """However tight, every request gets all its tokens, once each, and all blocks come back."""
    pool = BlockPool(50)
    engine = make_engine(pool)
    events: list[EngineEvent] = []
    requests = crowd(seed=1)
    for at, request in requests:
        events += engine.advance(at)
        engine.submit(request, at)
    events += run_dry(engine)
    given: dict[str, int] = {}
    for event in events:
        if isinstance(event, FirstToken | Token):
            given[event.request_id] = given.get(event.request_id, 0) + 1

    assert {request.id: request.output_tokens for _, request in requests} == given
    assert sorted(given) == sorted(event.request_id for event in events if isinstance(event, Finished))
    assert 50 == pool.free
    load = engine.load(1e9)
    assert (0, 0, sum(given.values())) == (load.running, load.waiting, load.generation_tokens)


def test_a_late_look_sees_the_same(make_engine: MakeEngine) -> None:
    """The events do not depend on how often, or when, `advance` is called."""
    seen = []
    for steps in (True, False):
        engine = make_engine(BlockPool(80))
        events: list[EngineEvent] = []
        for at, request in crowd(seed=2):
            engine.submit(request, at)
            if steps:
                events += engine.advance(at)
        events += run_dry(engine) if steps else engine.advance(1e9)
        seen.append(events)

    assert seen[0] == seen[1]
    assert seen[0] == sorted(seen[0], key=lambda event: event.at)


def test_an_abort_frees_the_blocks(make_engine: MakeEngine) -> None:
    """Waiting, in prefill or in decode: an aborted request is gone at once, and says nothing more."""
    pool = BlockPool(100)
    engine = make_engine(pool)
    engine.submit(EngineRequest("decode", 100, 500, chain("a", 6)), 0.0)
    engine.advance(0.1)
    engine.submit(EngineRequest("prefill", 500, 5, chain("b", 31)), 0.1)
    engine.submit(EngineRequest("waiting", 400, 5, chain("c", 25)), 0.1)
    for request_id in ("decode", "prefill", "waiting", "no_one"):
        engine.abort(request_id, 0.11)
    said = engine.advance(100.0)

    assert 100 == pool.free
    assert all(event.at <= 0.11 for event in said)
    load = engine.load(100.0)
    assert (0, 0, 0.0) == (load.running, load.waiting, load.kv_usage)


def test_an_aborted_prompt_keeps_the_blocks_of_the_step_that_ran(make_engine: MakeEngine) -> None:
    """The abort comes in the second step of 2,048 tokens, which still ends. The next request begins after it."""
    pool = BlockPool(1000)
    engine = make_engine(pool)
    prompt = chain("a", 625)
    engine.submit(EngineRequest("a", 10_000, 5, prompt), 0.0)
    engine.abort("a", 0.3)
    engine.submit(EngineRequest("a", 10_000, 1, prompt), 0.3)
    events = run_dry(engine)

    first, last = events
    assert isinstance(first, FirstToken)
    assert 4096 == first.cached_tokens
    assert [0.4196 + 0.01 + 0.5904, 1.02] == pytest.approx([first.at, last.at])
    assert 1000 == pool.free
    assert 10_000 == engine.load(9.0).prompt_tokens


def test_a_second_abort_is_of_the_next_request_with_the_same_id(make_engine: MakeEngine) -> None:
    """The engine does not know the first one any more, although its step still runs."""
    engine = make_engine(BlockPool(1000))
    for _ in range(2):
        engine.submit(EngineRequest("a", 10_000, 5, chain("a", 625)), 0.0)
        engine.abort("a", 0.1)

    assert [] == run_dry(engine)
    assert (0, 0, 0.0) == (engine.load(9.0).running, engine.load(9.0).waiting, engine.load(9.0).kv_usage)


def test_the_next_one_takes_the_place_of_an_aborted_one(make_engine: MakeEngine) -> None:
    """What waited for blocks gets them when an abort sets them free."""
    engine = make_engine(BlockPool(10))
    engine.submit(EngineRequest("a", 150, 10, chain("a", 9)), 0.0)
    engine.submit(EngineRequest("b", 150, 10, chain("b", 9)), 0.0)
    engine.abort("a", 0.001)

    assert "b" == run_dry(engine)[-1].request_id


def test_what_can_never_fit_is_refused(make_engine: MakeEngine) -> None:
    """A request larger than the whole cache would wait forever."""
    engine = make_engine(BlockPool(10))
    with pytest.raises(RequestTooLarge, match="request r needs 11 blocks, but the cache has only 10"):
        engine.submit(EngineRequest("r", 160, 1, []), 0.0)


def test_an_id_is_used_once_at_a_time(make_engine: MakeEngine) -> None:
    """A second request of an id that is still here is refused; after its end the id may come again."""
    engine = make_engine(BlockPool(10))
    engine.submit(EngineRequest("r", 10, 1, []), 0.0)
    with pytest.raises(DuplicateRequest, match="r is already in the engine"):
        engine.submit(EngineRequest("r", 10, 1, []), 0.001)
    run_dry(engine)
    engine.submit(EngineRequest("r", 10, 1, []), 1.0)

    assert 2 == len(run_dry(engine))


def with_host(blocks: int, host_blocks: int, *, fixed_s: float = 0.0) -> BlockPool:
    return BlockPool(blocks, host=HostTier(host_blocks, LoadTiming(20_000.0, fixed_s)))


def test_an_evicted_prompt_is_loaded_from_the_host(make_engine: MakeEngine) -> None:
    """62 of its 63 blocks at 20,000 tokens per second and 5 ms, then 8 tokens to compute, and both count as cached."""
    pool = with_host(63, 200, fixed_s=0.005)
    engine = make_engine(pool)
    for at, name in ((0.0, "a"), (1.0, "b"), (2.0, "a")):
        engine.submit(EngineRequest(name, 1000, 1, chain(name, 62)), at)
        events = engine.advance(at + 0.5)

    first = events[0]
    assert isinstance(first, FirstToken)
    assert 992 == first.cached_tokens
    assert 2.0 + 0.005 + 992 / 20_000 + 0.01 + 0.0008 == pytest.approx(first.at)
    assert 0 == engine.load(3.0).prefix_hit_tokens
    assert 62 == len(pool.match(chain("a", 62), 62))


def test_the_gpu_s_blocks_are_not_loaded(make_engine: MakeEngine) -> None:
    """Half of a's blocks are still on the GPU: 496 tokens come from there, and 496 from the host."""
    engine = make_engine(with_host(80, 200))
    engine.submit(EngineRequest("a", 1000, 1, chain("a", 62)), 0.0)
    engine.advance(1.0)
    engine.submit(EngineRequest("b", 750, 1, chain("b", 46)), 1.0)
    engine.advance(2.0)
    engine.submit(EngineRequest("a", 1000, 1, chain("a", 62)), 2.0)
    first = engine.advance(3.0)[0]

    assert isinstance(first, FirstToken)
    hits = engine.load(3.0).prefix_hit_tokens
    assert 992 == first.cached_tokens
    assert 0 < hits < 992
    assert 2.0 + (992 - hits) / 20_000 + 0.01 + 0.0008 == pytest.approx(first.at)


def test_a_host_tier_adds_hits_and_changes_nothing_else(make_engine: MakeEngine) -> None:
    """The same requests are answered with and without it, and all blocks come back. A larger tier has more hits."""
    cached = []
    for pool in (BlockPool(50), with_host(50, 100), with_host(50, 4000)):
        engine = make_engine(pool)
        events: list[EngineEvent] = []
        for at, request in crowd(seed=3):
            events += engine.advance(at)
            engine.submit(request, at)
        events += run_dry(engine)
        cached.append(sum(event.cached_tokens for event in events if isinstance(event, FirstToken)))

        assert 60 == sum(isinstance(event, Finished) for event in events)
        assert 50 == pool.free

    assert cached[0] < cached[1] < cached[2]


def test_a_late_look_sees_the_same_loads(make_engine: MakeEngine) -> None:
    """The events do not depend on when `advance` is called, also if loads run between the steps."""
    seen = []
    for steps in (True, False):
        engine = make_engine(with_host(60, 500))
        events: list[EngineEvent] = []
        for at, request in crowd(seed=4):
            engine.submit(request, at)
            if steps:
                events += engine.advance(at)
        events += run_dry(engine) if steps else engine.advance(1e9)
        seen.append(events)

    assert seen[0] == seen[1]


def test_an_abort_ends_a_load(make_engine: MakeEngine) -> None:
    """The request's blocks are free again, and the host tier may evict what was being loaded."""
    pool = with_host(40, 74)
    engine = make_engine(pool)
    for at, name in ((0.0, "a"), (1.0, "b")):
        engine.submit(EngineRequest(name, 600, 1, chain(name, 37)), at)
        engine.advance(at + 0.5)
    engine.submit(EngineRequest("a", 600, 1, chain("a", 37)), 2.0)
    engine.abort("a", 2.001)
    pool.offload(chain("c", 74))

    assert [] == engine.advance(3.0)
    assert 40 == pool.free
    assert 74 == len(pool.loadable(chain("c", 74), 0, 74))
