from documentation.pictures.quickstart import MARKED, quickstart, windows
from documentation.pictures.terminal import Window


def test_a_session_has_a_window_for_each_title() -> None:
    assert [Window("A", ["$ ls", "", "a"]), Window("B", ["$ cd"])] == list(windows("# A\n$ ls\n\na\n# B\n$ cd\n"))


def test_the_picture_shows_the_cached_tokens() -> None:
    picture = quickstart()

    assert [] == [text for text in MARKED if text not in picture]
