import pytest

from benchmarks.policies.shared_cache import Order, SharedCache, ToTheOne, first_come, shortest_uncached
from engine_model.blocks import BlockPool
from engine_model.engine import DuplicateRequest, EngineEvent, FirstToken, RequestTooLarge
from engine_model.request import EngineRequest
from engine_model.timing import Timing
from tests.benchmarks.policies.examples import an_ask

LONG = 100_001
"""Output tokens of an answer that outlasts a test."""


def an_engine(capacity: int = 100_000, *, servers: int = 2, order: Order = first_come) -> SharedCache:
    return SharedCache(BlockPool(capacity, 100), [Timing()] * servers, order)


def a_request(name: str, tokens: int, output_tokens: int = LONG, *, first_block: int = 0) -> EngineRequest:
    return EngineRequest(name, tokens, output_tokens, range(first_block, first_block + tokens // 100))


def first_tokens(events: list[EngineEvent]) -> dict[str, float]:
    return {event.request_id: event.at for event in events if isinstance(event, FirstToken)}


def test_as_many_prompts_are_computed_at_once_as_there_are_servers() -> None:
    """The third waits for the first that is free, and is computed beside its decode."""
    engine = an_engine()
    for number, name in enumerate("abc"):
        engine.submit(a_request(name, 5000 + 1000 * number, first_block=1000 * number), 0.0)
    seen = first_tokens(engine.advance(10.0))

    assert pytest.approx({"a": 0.51, "b": 0.61, "c": 0.51 + 0.01 + 0.7 * 1.004}) == seen


def test_the_fastest_free_server_takes_the_next_prompt() -> None:
    """One server is twice as fast; with one decode each, it is still the sooner free for the third prompt."""
    timings = [Timing(), Timing().at_speed(2.0)]
    engine = SharedCache(BlockPool(100_000, 100), timings, first_come)
    for number, name in enumerate("ab"):
        engine.submit(a_request(name, 5000, first_block=1000 * number), 0.0)
    engine.submit(a_request("c", 5000, first_block=2000), 1.0)

    assert pytest.approx({"a": 0.255, "b": 0.51, "c": 1.0 + 0.005 + 0.25 * 1.004}) == first_tokens(engine.advance(10.0))


def test_what_one_server_has_computed_all_have() -> None:
    """Half of the second prompt; it goes to the other server, for the first one decodes."""
    engine = an_engine()
    engine.submit(a_request("a", 5000), 0.0)
    engine.submit(a_request("b", 10_000), 1.0)
    events = engine.advance(10.0)

    assert pytest.approx({"a": 0.51, "b": 1.51}) == first_tokens(events)
    assert [0, 5000] == [event.cached_tokens for event in events if isinstance(event, FirstToken)]


@pytest.mark.parametrize(("order", "expected"), [(first_come, "along"), (shortest_uncached, "aolgn")])
def test_the_order_is_that_of_the_queue(order: Order, expected: str) -> None:
    engine = an_engine(servers=1, order=order)
    engine.submit(a_request("a", 30_000), 0.0)
    engine.submit(a_request("l", 9000, first_block=1000), 0.1)
    engine.submit(a_request("o", 30_100), 0.2)
    engine.submit(a_request("n", 12_000, first_block=2000), 0.3)
    engine.submit(a_request("g", 10_000, first_block=3000), 0.4)

    assert expected == "".join(first_tokens(engine.advance(100.0)))


def test_who_waits_long_enough_overtakes_the_shorter() -> None:
    """0.9 s of work more are made up for by 3 s of waiting."""
    engine = an_engine(servers=1, order=shortest_uncached)
    engine.submit(a_request("a", 40_000), 0.0)
    engine.submit(a_request("long", 10_000, first_block=1000), 0.1)
    engine.submit(a_request("soon", 1000, first_block=2000), 3.0)
    engine.submit(a_request("late", 1000, first_block=3000), 3.2)

    assert ["a", "soon", "long", "late"] == list(first_tokens(engine.advance(100.0)))


def test_the_next_waits_for_its_blocks_and_all_others_behind_it() -> None:
    """b does not fit beside a, and c, which would, does not overtake it, though a server is free."""
    engine = an_engine(10)
    engine.submit(EngineRequest("a", 600, 101, []), 0.0)  # 8 blocks, until 0.07 + 100 * 0.012
    engine.submit(EngineRequest("b", 600, 1, []), 0.0)
    engine.submit(EngineRequest("c", 100, 1, []), 0.0)

    assert (1, 2) == (engine.load(0.0).running, engine.load(0.0).waiting)
    assert pytest.approx({"a": 0.07, "b": 1.27 + 0.07, "c": 1.27 + 0.02}) == first_tokens(engine.advance(10.0))


def test_a_late_advance_gives_the_same_events_as_punctual_ones() -> None:
    """Between two calls nothing is lost, and every event has its own time."""
    punctual, late = an_engine(), an_engine()
    for number in range(20):
        for engine in (punctual, late):
            engine.submit(a_request(str(number), 3000 + 100 * number, 10, first_block=1000 * number), 0.0)
    events: list[EngineEvent] = []
    while (at := punctual.next_event_at()) is not None:
        events += punctual.advance(at)

    assert 40 == len(events)
    assert events == late.advance(1e9)
    assert late.next_event_at() is None


def test_an_abort_frees_the_place_of_a_request_wherever_it_is() -> None:
    """A prefill ends with its step of 2,048 tokens, and the last of the queue hits the 20 full blocks of this step."""
    engine = an_engine(servers=1)
    for name in "abc":
        engine.submit(a_request(name, 5000), 0.0)
    for name in ("b", "nobody", "a"):
        engine.abort(name, 0.2)

    assert pytest.approx({"c": 0.2148 + 0.31}) == first_tokens(engine.advance(1.0))
    engine.abort("c", 1.0)
    assert (0, 0, 0.0) == (engine.load(1.0).running, engine.load(1.0).waiting, engine.load(1.0).kv_usage)


def test_what_no_engine_takes_is_refused() -> None:
    """A second request of one id, waiting or not, and one that is too large for the whole pool."""
    engine = an_engine(100, servers=1)
    engine.submit(a_request("a", 1000, 1), 0.0)
    engine.submit(a_request("b", 1000, 1), 0.0)
    for name in "ab":
        with pytest.raises(DuplicateRequest, match=f"request {name} is already in the engine"):
            engine.submit(a_request(name, 1000, 1), 0.0)
    with pytest.raises(RequestTooLarge, match="request c needs 101 blocks, but the cache has only 100"):
        engine.submit(a_request("c", 10_000, 1), 0.0)


def test_a_load_is_that_of_all_servers() -> None:
    """Two prompts of 1,000 tokens, the second cached but for its last block, and three tokens of answers."""
    engine = an_engine()
    engine.submit(a_request("a", 1000, 1), 0.0)
    engine.advance(1.0)
    engine.submit(a_request("b", 1000, 2), 1.0)
    engine.advance(2.0)
    load = engine.load(2.0)

    assert (0, 0, 0.0, 0) == (load.running, load.waiting, load.kv_usage, load.preemptions)
    assert (2000, 900, 2000, 3) == (
        load.prefix_query_tokens,
        load.prefix_hit_tokens,
        load.prompt_tokens,
        load.generation_tokens,
    )


def test_its_policy_sends_everything_there_at_once() -> None:
    """Once each."""
    policy, asks = ToTheOne(), [an_ask(1), an_ask(2)]
    for ask in asks:
        policy.submit(ask, 0.0)

    assert [(ask, 0) for ask in asks] == policy.poll(0.0)
    assert [] == policy.poll(0.0)
    assert policy.next_poll_at(0.0) is None
