import re

from gateway.proxy.guardrails.detector import Match, pattern_detector

TICKET = pattern_detector(
    "ticket", "T-[0-9]{3}(?![0-9])", "T(?:-[0-9]{0,3})?", before="(?<![A-Z])", longest=6, hint="T-"
)


def test_a_match_is_the_first_from_a_place_on() -> None:
    assert Match(3, 8) == TICKET.find("of T-123, T-456", 0)
    assert Match(10, 15) == TICKET.find("of T-123, T-456", 4)
    assert TICKET.find("of T-123", 4) is None


def test_what_stands_before_the_place_is_looked_back_on() -> None:
    assert TICKET.find("AT-123", 1) is None


def test_a_check_may_take_less_or_nothing() -> None:
    """The next candidate has its turn then."""
    even = pattern_detector(
        "even", "[0-9]{2}", "[0-9]{1,2}", longest=3, check=lambda found: 2 if int(found[0]) % 2 == 0 else 0
    )

    assert Match(1, 3) == even.find("134", 0)
    assert even.find("13", 0) is None


def test_growing_is_from_where_more_text_could_make_a_match() -> None:
    assert 3 == TICKET.growing("of T", 0)
    assert 3 == TICKET.growing("of T-12", 0)
    assert 3 == TICKET.growing("of T-123", 0)  # a fourth digit would make it none
    assert 9 == TICKET.growing("of T-1234", 0)
    assert 2 == TICKET.growing("of", 0)


def test_without_its_hint_no_text_is_searched() -> None:
    assert TICKET.find("T 123", 0) is None


def test_flags_count_for_both_expressions() -> None:
    lower = pattern_detector("ticket", "T-[0-9]", "T-?", longest=4, flags=re.IGNORECASE)

    assert Match(0, 3) == lower.find("t-1", 0)
    assert 0 == lower.growing("t", 0)
