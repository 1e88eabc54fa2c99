from pathlib import Path

import pytest

from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.fifo import FifoEngine
from engine_model.host_tier import NoHostSink
from replay.entrant import Entrant, ours
from replay.setting import Setting, TimingModel

SETTING = Setting("", Path(), 4, 100)
POOL = BlockPool(100, 16)


@pytest.mark.parametrize(("timing", "engine"), [("fifo", FifoEngine), ("chunked", ChunkedEngine)])
def test_each_worker_has_a_cache_of_its_own(timing: TimingModel, engine: type) -> None:
    """Four workers of 100 blocks, of the timing model that the setting says."""
    setting = Setting("", Path(), 4, 100, timing=timing)
    entrant = ours("prefix_aware")

    assert (4, 100) == (entrant.workers(setting), entrant.blocks(setting))
    assert type(entrant.engine(setting, POOL)) is engine


def test_a_host_tier_is_as_large_as_the_setting_says() -> None:
    """200 blocks; without blocks there is no tier."""
    setting = Setting("", Path(), 4, 100, host_blocks=200)
    host = ours("kv_aware").host_tier(setting, NoHostSink())
    assert host is not None

    assert 200 == host.capacity
    assert ours("kv_aware").host_tier(SETTING, NoHostSink()) is None


def test_a_gateway_begins_with_a_rate_of_its_own() -> None:
    """Engines compute 10,000 tokens per second; a gateway assumes 2,000."""
    assert 2000.0 == ours("kv_aware").believed_tokens_per_s(SETTING)
    assert 10_000.0 == Entrant(ours("kv_aware").policy).believed_tokens_per_s(SETTING)
    assert 5000.0 == ours("kv_aware").believed_tokens_per_s(Setting("", Path(), 4, 100, rate_error=0.5))
