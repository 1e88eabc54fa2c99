import pytest

from gateway.proxy.guardrails.detector import Match
from gateway.proxy.guardrails.words import Patterns, UnboundedPatternError, Words, longest_of
from tests.gateway.proxy.guardrails.examples import found_in


def test_words_are_found_in_any_case_and_as_whole_words() -> None:
    words = Words(["Blue Bird", "zebra"])

    assert Match(2, 11) == words.find("a BLUE\nbird!", 0)
    assert words.find("bluebird zebras", 0) is None
    assert words.find("xzebra", 1) is None


def test_of_terms_with_the_same_beginning_the_longest_is_found() -> None:
    assert Match(0, 9) == Words(["blue", "blue bird"]).find("blue bird", 0)


def test_a_phrase_may_be_set_wide_but_not_torn_apart() -> None:
    words = Words(["blue bird"])

    assert Match(0, 24) == words.find(f"blue{' ' * 16}bird", 0)
    assert words.find(f"blue{' ' * 17}bird", 0) is None
    assert 0 == words.growing(f"blue{' ' * 16}bi", 0)


def test_only_the_beginning_of_a_term_waits() -> None:
    words = Words(["blue bird"])

    assert [3, 3, 3, 3] == [words.growing(f"my {text}", 0) for text in ("b", "blue", "blue ", "blue bird")]
    assert [7, 10] == [words.growing(f"my {text}", 0) for text in ("blau", "blue x ")]


def test_terms_must_begin_with_a_letter_or_digit() -> None:
    with pytest.raises(ValueError, match="begin with"):
        Words(["--x"])


def test_patterns_take_linear_time() -> None:
    """What takes a backtracking engine longer than the universe will last."""
    text = "a" * 5000

    assert Patterns(["(a{0,20}){0,20}b"]).find(text, 0) is None


@pytest.mark.parametrize("pattern", ["a+", "a*b", "(ab)+", "a{1,9000}", ".*"])
def test_patterns_without_a_bound_are_refused(pattern: str) -> None:
    with pytest.raises(UnboundedPatternError, match=r"\{1,64\}"):
        longest_of(pattern)


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", r"(a)\1"])
def test_what_is_no_pattern_of_re2_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="the pattern is not valid"):
        Patterns([pattern])


def test_the_leftmost_pattern_is_found_and_an_empty_match_is_not_found() -> None:
    patterns = Patterns([r"\bTICKET-[0-9]{3,6}\b", "x{0,3}", "TICK"])

    assert Match(1, 12) == patterns.find("äTICKET-1234", 1) or patterns.find(" TICKET-1234", 0) == Match(1, 12)
    assert Match(2, 4) == patterns.find("..xx", 0)
    assert patterns.find("none", 0) is None


def test_what_a_pattern_finds_counts_in_characters() -> None:
    assert ["TICKET-123"] == found_in("words", "日本 ü TICKET-123 é", patterns=["TICKET-[0-9]{3}"])


def test_allowed_are_texts_and_patterns_that_match_all_of_it() -> None:
    fields = {"detect": ["email"], "allow": ["A@x.org"], "allow_patterns": ["[a-z]{1,20}@example\\.org"]}

    assert ["b@x.org", "c1@example.org"] == found_in("pii", "a@x.org b@x.org c@example.org c1@example.org", **fields)
