from cache_index.hit import Hit
from routing.tiers import TierPrices


def test_blocks_on_the_gpu_cost_nothing_to_load() -> None:
    """However many."""
    assert 0.0 == TierPrices().blocks(Hit(100))


def test_each_tier_has_its_price() -> None:
    """4 from host memory count as 1 block to compute, 4 from disks as 3, 4 from a shared store as 2."""
    assert 1.0 == TierPrices().blocks(Hit(12, cpu=4))
    assert 3.0 == TierPrices().blocks(Hit(12, disk=4))
    assert 2.0 == TierPrices().blocks(Hit(12, shared=4))
    assert 6.0 == TierPrices().blocks(Hit(12, cpu=4, disk=4, shared=4))


def test_prices_can_be_set() -> None:
    """A fast link makes host memory nearly as good as the GPU."""
    assert 0.5 == TierPrices(cpu=0.05).blocks(Hit(10, cpu=10))
