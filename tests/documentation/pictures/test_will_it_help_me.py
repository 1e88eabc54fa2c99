from documentation.pictures.will_it_help_me import will_it_help_me


def test_each_number_of_prefixes_has_its_line() -> None:
    svg = will_it_help_me()

    assert [] == [count for count in ("20", "200", "2,000") if f">{count} shared prefixes<" not in svg]
    assert 3 == svg.count('<path class="s-ours"')
