import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.simulator.tokens import END_OF_ANSWER, TokenSequence, block_hashes, piece_text


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    """Tokens give their text back exactly, short pieces and split characters included."""
    tokens = TokenSequence.from_text(text)

    assert text == tokens.text()
    assert tokens == TokenSequence.from_ids(tokens.ids)


@given(st.text(), st.text())
def test_more_text_leaves_the_tokens_before_it(text: str, more: str) -> None:
    """All tokens but the last of a text are those of every longer one."""
    before = list(TokenSequence.from_text(text).ids)[:-1]

    assert before == list(TokenSequence.from_text(text + more).ids)[: len(before)]


def test_four_bytes_are_a_token() -> None:
    """Nine bytes make three tokens, the last one filled up."""
    tokens = TokenSequence.from_text("abcdefghi")

    assert [b"abcd", b"efgh", b"i\xff\xff\xff"] == tokens.pieces()
    assert 3 == len(tokens)
    assert ["abcd", "efgh", "i"] == [piece_text(piece) for piece in tokens.pieces()]


def test_an_answer_put_into_the_next_turn_keeps_its_tokens() -> None:
    """Text after a mark of the template begins a token of its own, wherever the mark ends."""
    header = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    prompt, text = TokenSequence.from_text(header), TokenSequence.from_text("bak tol ")

    next_turn = TokenSequence.from_text(header + "bak tol <|im_end|>\n")
    assert next_turn.packed.startswith((prompt + text).packed)


def test_a_split_character_shows_as_replacement() -> None:
    """One token alone may hold half a character."""
    assert "ab\ufffd" == piece_text(TokenSequence.from_text("ab€").pieces()[0])


def test_the_end_of_an_answer_has_no_text() -> None:
    """Its id is the largest there is."""
    end = TokenSequence(END_OF_ANSWER)

    assert ("", [2**32 - 1]) == (end.text(), list(end.ids))


def test_ids_are_unsigned_32_bit() -> None:
    """A larger id is refused."""
    with pytest.raises(OverflowError):
        TokenSequence.from_ids([2**32])


def test_full_blocks_are_hashed_in_a_chain() -> None:
    """Three full blocks of two tokens; a changed token changes its block and all after it."""
    hashes = block_hashes(TokenSequence.from_ids([1, 2, 3, 4, 5, 6, 7]), block_size=2, scope=("tiny",))
    other = block_hashes(TokenSequence.from_ids([1, 2, 3, 9, 5, 6, 7]), block_size=2, scope=("tiny",))

    assert 3 == len(hashes)
    assert [True, False, False] == [a == b for a, b in zip(hashes, other, strict=True)]
    assert all(0 <= value < 2**64 for value in hashes)


def test_the_scope_changes_every_block() -> None:
    """Another model, or another salt, shares nothing; neither does a scope cut elsewhere."""
    tokens = TokenSequence.from_ids([1, 2, 3, 4])
    chains = [
        block_hashes(tokens, block_size=2, scope=scope)
        for scope in (("tiny", ""), ("tiny", "salt"), ("other", ""), ("tin", "y"))
    ]

    assert 8 == len({value for chain in chains for value in chain})
