"""A worker without the adapter costs what loading takes, as far as that is known."""

import random

import pytest

from routing.dispatcher import Dispatcher, Immediate
from routing.load_price import ABSENT_S, LoadPrice
from routing.queueing.late_binding import LateBinding
from routing.strategies.by_name import StrategiesByName
from routing.strategies.kv_aware import KvAware
from routing.strategies.prefix_aware import PrefixAware
from tests.routing.examples import A, B, a_fleet, a_request, book, release_all


def test_who_has_it_costs_nothing_more() -> None:
    price = LoadPrice(2.0)

    assert 0.0 == price.price_s(holds=True, loadable=True)
    assert 0.0 == price.price_s(holds=True, loadable=False)
    assert 0.0 == price.price_s(holds=None, loadable=True), "it is taken to have it: an engine that does not report"


def test_who_has_it_not_costs_a_load() -> None:
    price = LoadPrice(2.0)

    assert 2.0 == price.price_s(holds=False, loadable=True)


def test_who_cannot_get_it_is_the_last_to_be_asked() -> None:
    """Loading is not possible there, or failed recently."""
    price = LoadPrice(2.0)

    assert ABSENT_S == price.price_s(holds=False, loadable=False)
    assert ABSENT_S == price.price_s(holds=False, loadable=True, failed=True)


def test_the_first_load_replaces_the_belief_and_later_ones_correct_it() -> None:
    price = LoadPrice(2.0)
    price.learn(0.5)
    first = price.load_s
    price.learn(1.5)

    assert 0.5 == first
    assert price.load_s == pytest.approx(0.8)


@pytest.mark.parametrize("strategy", ["prefix_aware", "kv_aware", "held"])
@pytest.mark.parametrize(("waiting_tokens", "expected"), [(0.0, "a"), (1500.0, "a"), (3000.0, "b")])
def test_a_request_goes_where_its_adapter_is_unless_waiting_costs_more(
    strategy: str, waiting_tokens: float, expected: str
) -> None:
    """Worker a has it, and a backlog of 0, 1.7 or 3.5 s; on b it takes 2 s to load."""
    fleet = a_fleet(A, B)
    fleet.members.set_adapter_penalty(B, LoadPrice(2.0).price_s(holds=False, loadable=True))
    if waiting_tokens:
        book(fleet, a_request(prompt_tokens=waiting_tokens), 0.0, on=A)
    rng = random.Random(7)
    by_name = StrategiesByName(
        "prefix_aware" if strategy == "prefix_aware" else "kv_aware",
        lambda name: PrefixAware(rng) if name == "prefix_aware" else KvAware(rng),
    )
    dispatcher: Dispatcher = LateBinding(fleet, by_name, rng) if strategy == "held" else Immediate(fleet, by_name)
    request = a_request("x")
    released = release_all(dispatcher, request)
    if not released:  # it is held for a worker that is about to be free: that is a
        assert ("held", "a") == (strategy, expected)
        return

    assert expected == released[0].order[0].worker


def test_the_way_and_the_load_add_up() -> None:
    """A worker of another zone without the adapter costs both; ways that are said again leave the load."""
    fleet = a_fleet(A, B)
    fleet.members.set_zone_penalties({B: 0.25})
    fleet.members.set_adapter_penalty(B, 2.0)
    fleet.members.set_zone_penalties({B: 0.5})

    assert (0.0, 2.5) == tuple(worker.zone_penalty_s for worker in fleet)
    assert (0.0, 2.0) == (fleet.members.adapter_penalty_s(A), fleet.members.adapter_penalty_s(B))


def test_what_is_said_of_a_worker_that_joins_later_counts_when_it_has_joined() -> None:
    fleet = a_fleet(A)
    fleet.members.set_adapter_penalty(B, 2.0)
    fleet.set_workers([A, B], 1.0)

    assert 2.0 == fleet.worker(B).zone_penalty_s
