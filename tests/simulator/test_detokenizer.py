import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.detokenizer import Detokenizer
from simulator.tokens import END_OF_ANSWER, TokenSequence

NOTHING = TokenSequence(b"")


def pieces(tokens: TokenSequence, *, after: TokenSequence = NOTHING) -> list[str]:
    detokenizer = Detokenizer(after)
    return [detokenizer.feed(token) for token in tokens.ids]


@given(st.text().filter(lambda text: not text.endswith("\ufffd")))
def test_the_pieces_are_the_text(text: str) -> None:
    """Whatever characters it has, wherever its tokens cut them."""
    assert text == "".join(pieces(TokenSequence.from_text(text)))


def test_what_shares_a_token_with_half_a_character_waits_for_it() -> None:
    assert ["", "né ", "that"] == pieces(TokenSequence.from_text("né that"))


def test_a_character_of_four_bytes_comes_with_its_second_token() -> None:
    """One that stands at the beginning of a piece is two tokens."""
    assert ["", "🐀", "that"] == pieces(TokenSequence.from_text("🐀that"))


def test_a_character_that_is_never_completed_is_never_shown() -> None:
    """Neither when the answer ends; the mark that ends it is not shown either."""
    half = TokenSequence.from_text("that🐀").ids[:2]

    assert ["that", ""] == pieces(TokenSequence.from_ids(half))
    assert ["that", "", ""] == pieces(TokenSequence.from_ids(half) + TokenSequence(END_OF_ANSWER))


def test_bytes_that_are_no_text_are_shown_once_text_follows() -> None:
    assert ["", "\ufffdA"] == pieces(TokenSequence.from_ids([0xFF, 0x41]))


def test_a_prompt_that_ends_within_a_character_is_completed_by_the_answer() -> None:
    first, second = TokenSequence.from_text("🐀").ids

    assert ["🐀"] == pieces(TokenSequence.from_ids([second]), after=TokenSequence.from_ids([65, first]))


def test_what_is_no_text_in_a_prompt_is_passed_over() -> None:
    """In an answer it is an error."""
    beyond = TokenSequence.from_ids([225_794])

    assert ["that"] == pieces(TokenSequence.from_text("that"), after=beyond)
    with pytest.raises(ValueError, match="225794"):
        pieces(beyond)
