from hypothesis import given, settings
from hypothesis import strategies as st

from routing.learning.window import Window


def test_what_happened_within_the_window_counts() -> None:
    """Three times in ten seconds, however close together."""
    window = Window(10.0)
    for now in (0.0, 0.0, 4.5):
        window.note(now)

    assert 3 == window.count(9.9)


def test_what_is_older_does_not() -> None:
    """It leaves with the tenth of the window in which it happened."""
    window = Window(10.0)
    for now in (0.5, 1.5, 1.9):
        window.note(now)

    assert [3, 2, 0] == [window.count(now) for now in (9.9, 10.0, 11.0)]


def test_an_empty_window_counts_nothing() -> None:
    """This holds after a long time without events."""
    window = Window(10.0)
    assert 0 == window.count(5.0)
    window.note(6.0)

    assert [0, 0] == [window.count(now) for now in (1_000.0, 1_000_000.0)]


@settings(max_examples=100, deadline=None)
@given(pauses_s=st.lists(st.sampled_from([0.0, 0.1, 0.7, 2.5, 9.0, 30.0]), max_size=60))
def test_it_counts_like_a_list_of_all_events(pauses_s: list[float]) -> None:
    """The count covers the running second and the nine before it."""
    window, noted, now = Window(10.0), [], 0.0
    for pause_s in pauses_s:
        now += pause_s
        window.note(now)
        noted.append(now)

        assert len([at for at in noted if int(at) > int(now) - 10]) == window.count(now)
