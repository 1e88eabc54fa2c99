from cache_index.hit import Hit
from routing.loads import NO_LOADS, Loads, loads_of


def test_what_a_hit_loads() -> None:
    """Tokens by tier; blocks on the GPU need no loading."""
    assert Loads(cpu=32.0, disk=48.0, shared=16.0) == loads_of(Hit(10, cpu=2, disk=3, shared=1), 16)
    assert 96.0 == Loads(cpu=32.0, disk=48.0, shared=16.0).total
    assert NO_LOADS is loads_of(Hit(10), 16)
