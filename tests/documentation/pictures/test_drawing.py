from documentation.pictures.drawing import DARK, LIGHT, Canvas


def test_the_title_and_the_description_are_there_for_screen_readers() -> None:
    svg = Canvas(100, "A <title>", "What is shown").svg()

    assert '<title id="title">A &lt;title&gt;</title><desc id="description">What is shown</desc>' in svg


def test_text_is_escaped() -> None:
    canvas = Canvas(100, "", "")
    canvas.text((1, 2), "a < b & c")

    assert '<text class="f-ink" x="1" y="2" text-anchor="start" font-size="15">a &lt; b &amp; c</text>' in canvas.svg()


def test_lines_of_a_box_are_centered_around_its_middle() -> None:
    canvas = Canvas(100, "", "")
    canvas.box((0, 0), (100, 60), ["Name", "more"])

    assert 'x="50" y="25.5" text-anchor="middle" font-size="15" font-weight="600">Name<' in canvas.svg()
    assert 'x="50" y="44.5" text-anchor="middle" font-size="15">more<' in canvas.svg()


def test_an_arrow_ends_in_a_head() -> None:
    canvas = Canvas(100, "", "")
    canvas.arrow([(0, 0), (20, 0)])

    assert '<polygon class="f-peer" points="20,0 11,4.5 11,-4.5"/>' in canvas.svg()


def test_a_line_has_no_head() -> None:
    canvas = Canvas(100, "", "")
    canvas.line([(0, 0), (20, 0.04)], dashed=True)

    assert (
        'd="M0 0 L20 0" fill="none" stroke-width="1.5" stroke-linejoin="round" stroke-dasharray="5 4"/>' in canvas.svg()
    )
    assert "polygon" not in canvas.svg()


def test_dots_and_bars_have_the_named_color() -> None:
    canvas = Canvas(100, "", "")
    canvas.dot((5, 6), color="ours")
    canvas.bar((1, 2), (3, 4), color="peer")

    assert '<circle class="f-ours" cx="5" cy="6" r="3.5"/>' in canvas.svg()
    assert '<rect class="f-peer" x="1" y="2" width="3" height="4"/>' in canvas.svg()


def test_both_color_schemes_have_all_colors() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert "@media (prefers-color-scheme: dark) { .f-ground { fill: #14201f }" in Canvas(1, "", "").svg()
