import random

import pytest

from replay.gateway import Gateway
from replay.policy import Ask, Setup, Usage
from routing.strategies import NAMES
from tests.benchmarks.policies.examples import BLOCK_TOKENS, an_ask

WORKERS = 4
NO_REPORT = Usage(0, 1)


def a_gateway(strategy: str = "kv_aware") -> Gateway:
    return Gateway(a_setup(), strategy)


def a_setup(*, load_price: float | None = None) -> Setup:
    return Setup(WORKERS, 100, BLOCK_TOKENS, 1000.0, random.Random(0), load_price=load_price)


def sent(gateway: Gateway, ask: Ask, now: float) -> int:
    """To which worker, at once."""
    gateway.submit(ask, now)
    ((which, worker),) = gateway.poll(now)
    assert ask is which
    return worker


def answer(gateway: Gateway, ask: Ask, now: float, cached_tokens: int = 0) -> None:
    gateway.first_token(ask, now)
    gateway.finished(ask, Usage(cached_tokens, 1), now)


@pytest.mark.parametrize("strategy", NAMES)
def test_every_strategy_sends_what_it_is_given(strategy: str) -> None:
    """To a worker that there is."""
    gateway = a_gateway(strategy)

    assert sent(gateway, an_ask(1, 2, 3), 0.0) in range(WORKERS)
    assert gateway.next_poll_at(0.0) is None


@pytest.mark.parametrize("holder", range(WORKERS))
def test_kv_aware_goes_where_an_engine_says_it_holds_the_prompt(holder: int) -> None:
    """Though nothing was ever sent there; in two runs, the second of which follows the first. Another holds less."""
    gateway = a_gateway()
    gateway.stored((holder + 1) % WORKERS, [0, 1, 2], None, 0.0)
    gateway.stored(holder, [0, 1], None, 0.0)
    gateway.stored(holder, [2, 3], 1, 0.0)

    assert holder == sent(gateway, an_ask(0, 1, 2, 3, 4), 0.0)


def test_kv_aware_counts_blocks_and_not_ids() -> None:
    """One worker holds one block of the prompt, another three."""
    gateway = a_gateway()
    gateway.stored(1, [5], None, 0.0)
    gateway.stored(2, [5, 6, 7], None, 0.0)

    assert 2 == sent(gateway, an_ask(5, 6, 7, 8), 0.0)


def test_kv_aware_goes_no_more_where_the_prompt_was_removed() -> None:
    """The end of it first, as engines evict; what is left of it is less than another holds."""
    gateway = a_gateway()
    gateway.stored(1, [1, 2, 3], None, 0.0)
    gateway.stored(2, [1, 2], None, 0.0)
    gateway.removed(1, [3, 2], 0.0)

    assert 2 == sent(gateway, an_ask(1, 2, 3, 4), 0.0)


def test_kv_aware_goes_where_a_host_tier_holds_the_prompt() -> None:
    """Evicted from the GPU, and reported by its ids alone; another worker holds less of it on its GPU."""
    setup = a_setup()
    gateway = Gateway(setup, "kv_aware")
    gateway.stored(1, [1, 2, 3], None, 0.0)
    setup.host_events.stored(1, [1, 2, 3], 0.0)
    gateway.removed(1, [3, 2, 1], 0.0)
    gateway.stored(2, [1], None, 0.0)

    assert 1 == sent(gateway, an_ask(1, 2, 3, 4), 0.0)

    setup.host_events.removed(1, [3, 2, 1], 0.0)
    gateway.stored(2, [7], None, 0.0)

    assert 2 == sent(gateway, an_ask(7, 8), 0.0)


def test_kv_aware_can_be_blind_to_host_tiers() -> None:
    """Only what the GPU holds counts."""
    setup = a_setup()
    gateway = Gateway(setup, "kv_aware", knows_host=False)
    gateway.stored(1, [1, 2, 3], None, 0.0)
    setup.host_events.stored(1, [1, 2, 3], 0.0)
    gateway.removed(1, [3, 2, 1], 0.0)
    gateway.stored(2, [1], None, 0.0)

    assert 2 == sent(gateway, an_ask(1, 2, 3, 4), 0.0)


@pytest.mark.parametrize(("load_price", "goes_to"), [(0.05, 1), (1.0, 2)])
def test_a_load_has_the_price_that_the_setup_assumes(load_price: float, goes_to: int) -> None:
    """Three blocks in a host tier against two on a GPU."""
    setup = a_setup(load_price=load_price)
    gateway = Gateway(setup, "kv_aware")
    gateway.stored(1, [1, 2, 3], None, 0.0)
    setup.host_events.stored(1, [1, 2, 3], 0.0)
    gateway.removed(1, [3, 2, 1], 0.0)
    gateway.stored(2, [1, 2], None, 0.0)

    assert goes_to == sent(gateway, an_ask(1, 2, 3, 4), 0.0)


def test_kv_aware_expects_what_it_sent_to_be_reported() -> None:
    """Before any event, the prompt that goes on from one under way, which costs ten times the wait, follows it."""
    gateway = a_gateway()
    first = an_ask(*range(20))
    worker = sent(gateway, first, 0.0)
    answer(gateway, first, 2.0)

    assert worker == sent(gateway, an_ask(*range(21)), 2.0)


def test_kv_aware_does_not_expect_for_ever() -> None:
    """Never reported, and long past: half a minute later only what another reports counts."""
    gateway = a_gateway()
    first = an_ask(1, 2, 3, 4)
    worker = sent(gateway, first, 0.0)
    answer(gateway, first, 1.0)
    other = (worker + 1) % WORKERS
    gateway.stored(other, [1], None, 1.0)

    assert other == sent(gateway, an_ask(1, 2, 3, 4, 5), 31.0)


def test_what_is_under_way_for_long_is_expected_until_it_is_reported() -> None:
    """Six looks two seconds apart while the first token is awaited: the prompt that goes on still follows."""
    gateway = a_gateway()
    first = an_ask(*range(40))
    worker = sent(gateway, first, 0.0)
    for now in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
        assert [] == gateway.poll(now)

    assert worker == sent(gateway, an_ask(*range(41)), 12.0)


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "kv_aware"])
def test_the_other_strategies_hear_nothing_of_caches(strategy: str) -> None:
    """With and without events they send a hundred prompts to the same workers."""
    reported, untold = a_gateway(strategy), a_gateway(strategy)
    places = []
    for number in range(100):
        reported.stored(3, [number, 1000 + number], None, float(number))
        reported.removed(3, [1000 + number], float(number))
        asks = [an_ask(number, 1000 + number) for _ in range(2)]
        places.append([sent(gateway, ask, number) for gateway, ask in zip((reported, untold), asks, strict=True)])
        for gateway, ask in zip((reported, untold), asks, strict=True):
            answer(gateway, ask, number + 0.5)

    assert [] == [place for place in places if place[0] != place[1]]


def test_kv_aware_holds_what_would_have_to_wait() -> None:
    """Four workers with a prompt of 100 s each: the fifth is held until one is about to be free."""
    gateway = a_gateway()
    for number in range(WORKERS):
        sent(gateway, an_ask(number, tokens=100_000), 0.0)
    held = an_ask(50)
    gateway.submit(held, 1.0)

    assert [] == gateway.poll(1.0)
    again = gateway.next_poll_at(1.0)
    assert again is not None
    assert 50.0 < again < 200.0
