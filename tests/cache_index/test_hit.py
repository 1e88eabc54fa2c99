from cache_index.hit import Hit


def test_a_plain_hit_is_all_on_the_gpu() -> None:
    """Nothing of it has to be loaded."""
    hit = Hit(7)

    assert (7, 0, 0, 0) == (hit.blocks, hit.cpu, hit.disk, hit.shared)
