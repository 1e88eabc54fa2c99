from pathlib import Path

import pytest

from benchmarks.policies.names import BOUNDS, POLICIES
from benchmarks.policies.shared_cache import SharedCache
from benchmarks.replay.entrant import AT_ONCE, BLIND, ENTRANTS
from engine_model.blocks import BlockPool
from engine_model.host_tier import NoHostSink
from replay.setting import Setting
from routing.strategies import NAMES

SETTING = Setting("", Path(), 4, 100)
POOL = BlockPool(100, 16)


def test_all_that_have_a_name_can_be_compared() -> None:
    """Strategies, variants of kv_aware, policies of others, and bounds."""
    assert {*NAMES, BLIND, AT_ONCE, *POLICIES, *BOUNDS} == set(ENTRANTS)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_is_one_worker_with_all_blocks(bound: str) -> None:
    """One of 400, which computes as four do."""
    entrant = ENTRANTS[bound]

    assert (1, 400) == (entrant.workers(SETTING), entrant.blocks(SETTING))
    assert type(entrant.engine(SETTING, POOL)) is SharedCache


def test_others_know_the_mean_speed_of_unequal_workers() -> None:
    """Workers of 10,000 and 40,000 tokens per second; a gateway assumes 2,000, whatever they are."""
    unequal = Setting("", Path(), 2, 100, worker_speeds=(1.0, 4.0))

    assert 25_000.0 == ENTRANTS["llm_d"].believed_tokens_per_s(unequal)
    assert 2000.0 == ENTRANTS["kv_aware"].believed_tokens_per_s(unequal)


@pytest.mark.parametrize(("name", "blocks", "load_s"), [("kv_aware", 200, 0.01), ("bound_first_come", 800, 0.0025)])
def test_a_bound_has_the_host_tiers_of_all_workers(name: str, blocks: int, load_s: float) -> None:
    """With four times the size and four times the speed, since four workers have four links."""
    setting = Setting("", Path(), 4, 100, host_blocks=200, load_tokens_per_s=100_000.0)
    host = ENTRANTS[name].host_tier(setting, NoHostSink())
    assert host is not None
    host.store([1])

    assert blocks == host.capacity
    assert load_s == host.begin_load([1], 1000, 0.0)
    assert ENTRANTS[name].host_tier(SETTING, NoHostSink()) is None


def test_ours_begin_with_what_a_gateway_believes() -> None:
    """Others know the truth, 10,000 tokens per second, unless the setting is wrong for all."""
    wrong = Setting("", Path(), 4, 100, rate_error=0.5)
    ours, other = ENTRANTS["kv_aware"], ENTRANTS["llm_d"]

    assert (2000.0, 10_000.0) == (ours.believed_tokens_per_s(SETTING), other.believed_tokens_per_s(SETTING))
    assert (5000.0, 5000.0) == (ours.believed_tokens_per_s(wrong), other.believed_tokens_per_s(wrong))
