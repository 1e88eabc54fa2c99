import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.bedrock.stops import StopGuard, overlap


def shown(stops: tuple[str, ...], *pieces: str) -> tuple[str, bool]:
    guard = StopGuard(stops)
    text = "".join([guard.feed(piece) for piece in pieces])
    return text + guard.rest(), guard.has_stopped


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("one END two",), ("one ", True)),
        (("one E", "N", "D", " two"), ("one ", True)),
        (("one E", "N"), ("one EN", False)),
        (("EEND",), ("E", True)),
        (("one", " two"), ("one two", False)),
        ((), ("", False)),
    ],
)
def test_text_ends_before_the_stop_string(pieces: tuple[str, ...], expected: tuple[str, bool]) -> None:
    """However it is cut, nothing of the stop string shows, and what only looked like one does."""
    assert expected == shown(("END",), *pieces)


def test_the_first_of_several_counts() -> None:
    """The one that is complete first, wherever it stands in the list."""
    assert ("a", True) == shown(("three", "two"), "atwothree")
    assert ("xa", True) == shown(("abc", "b"), "xabc") == shown(("abc", "b"), "x", "a", "b", "c")


def test_only_what_may_become_a_stop_string_is_held() -> None:
    """The rest is shown at once."""
    guard = StopGuard(("END",))

    assert ["one ", "ENE two", ""] == [guard.feed(text) for text in ("one E", "NE two", "EN")]
    assert "EN" == guard.rest()


def test_without_stop_strings_all_text_passes_at_once() -> None:
    """Nothing is held."""
    guard = StopGuard(())

    assert "one" == guard.feed("one")
    assert ("", False) == (guard.rest(), guard.has_stopped)


@given(
    st.lists(st.text("ab", max_size=5), max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple),
)
def test_how_the_text_is_cut_makes_no_difference(pieces: list[str], stops: tuple[str, ...]) -> None:
    """The oracle looks at all of the text at once, as it grows: the stop string that is complete first ends it."""
    whole = "".join(pieces)
    found = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]

    assert (whole[: min(found)[1]] if found else whole, bool(found)) == shown(stops, *pieces)


def test_the_overlap_is_the_longest_and_never_all() -> None:
    """A stop string that is there whole is no overlap: it was found."""
    assert [3, 1, 0, 0] == [overlap(text, "abab") for text in ("xaba", "xa", "x", "")]
