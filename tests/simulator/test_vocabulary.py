import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.vocabulary import LETTERS, MARKS, SIZE, all_tokens, ids_of, is_mark, mark_id, mark_piece, token_bytes

PIECES = st.binary(min_size=1, max_size=4).filter(lambda piece: 0xFF not in piece)


def of(*pieces: bytes) -> list[int]:
    ids: list[int] = ids_of(b"".join(piece.ljust(4, b"\xff") for piece in pieces)).tolist()
    return ids


def test_the_ids_are_in_four_ranges() -> None:
    """Bytes, pairs, four letters, marks; each begins where the one before it ends."""
    assert [0, 97, 254] == [*of(b"\0"), *of(b"a"), *of(b"\xfe")]
    assert [256, 65_534] == [*of(b"\0\0"), *of(b"\xfe\xfe")]
    assert [65_792, 225_791] == [*of(b"    "), *of(b"vvvv")]
    assert (225_792, 225_793, 225_794) == (mark_id("<|im_start|>"), mark_id("<|im_end|>"), SIZE)


def test_marks_are_the_last_ids() -> None:
    assert [False, True, True, False] == [is_mark(token) for token in (225_791, 225_792, 225_793, 225_794)]


def test_four_letters_are_one_token_and_other_pieces_are_cut_in_two() -> None:
    assert [1, 2, 2, 2, 1] == [len(of(piece)) for piece in (b"that", b"That", b"a-b-", b"tha", b"th")]
    assert [*of(b"Th"), *of(b"at")] == of(b"That")
    assert [*of(b"th"), *of(b"a")] == of(b"tha")


def test_pieces_keep_their_order() -> None:
    """Whatever kinds of tokens stand beside each other, marks included."""
    start = mark_piece("<|im_start|>")

    assert [mark_id("<|im_start|>"), *of(b"that"), *of(b"X"), *of(b"X-Y"), mark_id("<|im_end|>")] == ids_of(
        start + b"that" + b"X\xff\xff\xff" + b"X-Y\xff" + mark_piece("<|im_end|>")
    ).tolist()
    assert [] == ids_of(b"").tolist()


@given(st.lists(PIECES))
def test_the_bytes_come_back(pieces: list[bytes]) -> None:
    assert b"".join(pieces) == b"".join(map(token_bytes, of(*pieces)))


def test_every_id_is_one_token() -> None:
    """The list of all is in the order of the ids."""
    tokens = list(all_tokens())

    assert SIZE - len(MARKS) == len(tokens) == len(set(tokens))
    assert all(tokens[at] == token_bytes(at) for at in range(0, len(tokens), 97))
    assert [mark.encode() for mark in MARKS] == [token_bytes(mark_id(mark)) for mark in MARKS]
    assert [bytes(four) for four in itertools.product(LETTERS[:2], repeat=4)][1] == tokens[65_793]


@pytest.mark.parametrize("token", [-1, SIZE])
def test_other_numbers_are_no_tokens(token: int) -> None:
    """They are refused."""
    with pytest.raises(ValueError, match=f"token ids must be 0 to 225793, got {token}"):
        token_bytes(token)
