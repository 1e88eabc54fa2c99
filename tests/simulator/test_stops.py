from simulator.stops import Stopped, Stops


def test_a_stop_string_is_found_across_tokens() -> None:
    """The text ends before it, with the token that completes it."""
    assert Stopped(3, 1, "bcd") == Stops(["bcd"]).find(["ab", "c", "de", "bcd"])
    assert Stopped(3, 4, "bcd") == Stops(["bcd"], is_included=True).find(["ab", "c", "de"])


def test_the_first_of_several_counts() -> None:
    """Both stand in the same token."""
    assert Stopped(1, 1, "b") == Stops(["c", "b"]).find(["abc"])


def test_a_text_without_a_stop_string_goes_on() -> None:
    assert None is Stops(["x"]).find(["ab", "", "c"])
    assert None is Stops().find(["ab"])


def test_the_least_tokens_are_not_cut() -> None:
    """What they complete does not count, what comes later does."""
    assert Stopped(2, 1, "b") == Stops(["b"]).find(["a", "b"], min_tokens=1)
    assert None is Stops(["b"]).find(["a", "b", "c"], min_tokens=2)
