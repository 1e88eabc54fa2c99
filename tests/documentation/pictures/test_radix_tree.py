from documentation.pictures.radix_tree import radix_tree


def test_the_worker_with_the_longest_match_is_in_the_strong_color() -> None:
    svg = radix_tree()

    assert '<text class="f-ours" x="428" y="413" text-anchor="start" font-size="15" font-weight="600">80%<' in svg
    assert 2 == svg.count(">40%<")
