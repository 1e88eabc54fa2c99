from documentation.pictures.hit_rate_against_cache_size import OTHERS, OURS, hit_rate_against_cache_size


def test_every_policy_has_its_label() -> None:
    svg = hit_rate_against_cache_size()

    assert [] == [label for label in (OURS | OTHERS).values() if f">{label}<" not in svg]
    assert "benchmarks/results/cache_size.json." in svg
