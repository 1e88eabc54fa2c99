import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.tokens import END_OF_ANSWER, TokenSequence, block_hashes


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    """Tokens give their text back exactly, short pieces and split characters included."""
    tokens = TokenSequence.from_text(text)

    assert text == tokens.text()
    assert tokens == TokenSequence.from_ids(tokens.ids)


@given(st.text(), st.text())
def test_more_text_leaves_the_tokens_before_it(text: str, more: str) -> None:
    """All tokens of a text but those of its last piece, two at most, are those of every longer one."""
    before = list(TokenSequence.from_text(text).ids)[:-2]

    assert before == list(TokenSequence.from_text(text + more).ids)[: len(before)]


def test_four_bytes_are_a_piece() -> None:
    """Nine letters make three tokens, the last one short; other bytes are cut in two."""
    assert ["ther", "e is", " "] == [TokenSequence(each).text() for each in TokenSequence.from_text("there is ").each()]
    assert ["Th", "er", "e"] == [TokenSequence(each).text() for each in TokenSequence.from_text("There").each()]


def test_the_marks_of_the_template_are_tokens() -> None:
    tokens = TokenSequence.from_text("<|im_start|>user\nthat<|im_end|>\n")

    assert ["<|im_start|>", "user", "\n", "that", "<|im_end|>", "\n"] == [
        TokenSequence(each).text() for each in tokens.each()
    ]
    assert "user\nthat\n" == tokens.text(skip_marks=True)


def test_an_answer_put_into_the_next_turn_keeps_its_tokens() -> None:
    """Text after a mark of the template begins a token of its own, wherever the mark ends."""
    header = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    prompt, text = TokenSequence.from_text(header), TokenSequence.from_text("bak tol ")

    next_turn = TokenSequence.from_text(header + "bak tol <|im_end|>\n")
    assert next_turn.packed.startswith((prompt + text).packed)


def test_a_split_character_shows_as_replacement() -> None:
    """One token alone may hold half a character."""
    assert ["a\ufffd", "\ufffd\ufffd"] == [TokenSequence(each).text() for each in TokenSequence.from_text("a€").each()]


def test_the_end_of_an_answer_is_the_end_of_a_message() -> None:
    end = TokenSequence(END_OF_ANSWER)

    assert ("<|im_end|>", "", [225_793]) == (end.text(), end.text(skip_marks=True), list(end.ids))
    assert end == TokenSequence.from_text("<|im_end|>")


def test_ids_are_unsigned_32_bit() -> None:
    """A larger id is refused; one beyond the vocabulary has no text."""
    with pytest.raises(OverflowError):
        TokenSequence.from_ids([2**32])
    with pytest.raises(ValueError, match="token ids must be 0 to 225793, got 225794"):
        TokenSequence.from_ids([225_794]).text()


def test_full_blocks_are_hashed_in_a_chain() -> None:
    """Three full blocks of two tokens; a changed token changes its block and all after it."""
    hashes = block_hashes(TokenSequence.from_ids([1, 2, 3, 4, 5, 6, 7]), block_size=2, scope=("tiny",))
    other = block_hashes(TokenSequence.from_ids([1, 2, 3, 9, 5, 6, 7]), block_size=2, scope=("tiny",))

    assert 3 == len(hashes)
    assert [True, False, False] == [a == b for a, b in zip(hashes, other, strict=True)]
    assert all(0 <= value < 2**64 for value in hashes)


def test_the_scope_changes_every_block() -> None:
    """Another model, another adapter or another salt shares nothing; neither does a scope cut elsewhere."""
    tokens = TokenSequence.from_ids([1, 2, 3, 4])
    chains = [
        block_hashes(tokens, block_size=2, scope=scope)
        for scope in (("tiny", "", ""), ("tiny", "", "salt"), ("tiny", "salt", ""), ("other", "", ""), ("tin", "y", ""))
    ]

    assert 10 == len({value for chain in chains for value in chain})
