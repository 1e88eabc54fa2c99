import re
from html import unescape

from documentation.pictures.terminal import COLUMNS, Window, terminal


def texts(*lines: str, marked: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Classes and texts of the lines of a window that is called A."""
    picture = terminal([Window("A", lines)], title="T", description="D", marked=marked)
    found = re.findall(r'<text class="(\w+)"[^>]*>([^<]*)</text>', picture)[1:]
    return [(kind, unescape(text)) for kind, text in found]


def test_commands_output_and_omissions_have_their_own_colors() -> None:
    assert [("command", "$ ls"), ("command", "> -l"), ("plain", "a"), ("muted", "…"), ("mark", "hit: 1")] == texts(
        "$ ls", "> -l", "a", "…", "hit: 1", marked=("hit",)
    )


def test_long_output_is_wrapped_and_a_long_command_is_cut() -> None:
    assert [("plain", "x" * COLUMNS), ("plain", "xx")] == texts("x" * (COLUMNS + 2))
    assert [("plain", "x" * 50), ("plain", "y" * 20)] == texts("x" * 50 + " " + "y" * 20)
    assert [("plain", "x" * 50 + ","), ("plain", "y" * 20)] == texts("x" * 50 + "," + "y" * 20)
    assert [("command", "$ " + "x" * (COLUMNS - 3) + "…")] == texts("$ " + "x" * COLUMNS)


def test_a_line_is_as_wide_as_its_letters() -> None:
    """Four spaces in front move it to the right."""
    picture = terminal([Window("A", ["    ab"])], title="T", description="D")

    assert 'x="49.2" y="48" font-size="13" textLength="15.6"' in picture


def test_windows_are_below_each_other() -> None:
    """The second begins ten units below the first. Markup in a line is escaped."""
    picture = terminal([Window("A", ["<b>"]), Window("B", ["x"])], title="T", description="D")

    assert 'viewBox="0 0 520 151"' in picture
    assert '<rect class="window" x="0" y="80.5" width="520" height="70.5" rx="10"/>' in picture
    assert "&lt;b&gt;" in picture
