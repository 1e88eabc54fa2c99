"""Vocabulary of the simulator. It is computed without a table and is small enough for a tokenizer.json.

    0 to 255              one byte
    256 to 65,791         two bytes: 256 + 256 * first + second
    65,792 to 225,791     four bytes from `LETTERS`, whose positions are the digits of a base-20 number
    from 225,792          the marks of the chat template

Text is cut into pieces of four bytes. A piece whose bytes are all in `LETTERS` is one token, and any other piece is two
tokens of two bytes. English text and JSON have about three bytes per token.
"""

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

PIECE_BYTES = 4
FILLER = 0xFF
"""Byte that pads a short piece to four bytes. It never occurs in UTF-8 text."""

LETTERS = b" etaoinshrdlcumpgbfv"
"""The most common bytes of English text."""

MARKS = ("<|im_start|>", "<|im_end|>")

_PAIRS_FROM = 256
_QUADS_FROM = _PAIRS_FROM + 256 * 256
_MARKS_FROM: int = _QUADS_FROM + len(LETTERS) ** PIECE_BYTES
SIZE: int = _MARKS_FROM + len(MARKS)
"""Number of token ids in the vocabulary."""

_Ids: TypeAlias = npt.NDArray[np.uint32]

_NO_LETTER = 0xFF
_PLACES = np.full(256, _NO_LETTER, dtype=np.uint32)
_PLACES[list(LETTERS)] = np.arange(len(LETTERS))
_WEIGHTS = np.array([len(LETTERS) ** power for power in (3, 2, 1, 0)], dtype=np.uint32)


def mark_piece(mark: str) -> bytes:
    """Return the four-byte piece that stands for *mark*. Because of its filler byte, no text produces this piece."""
    return bytes((FILLER, FILLER, FILLER, MARKS.index(mark)))


def mark_id(mark: str) -> int:
    return _MARKS_FROM + MARKS.index(mark)


def is_mark(token: int) -> bool:
    return _MARKS_FROM <= token < SIZE


def ids_of(pieces: bytes) -> _Ids:
    """Return the token ids of *pieces*, which have four bytes each, in a few passes over all pieces at once."""
    rows = np.frombuffer(pieces, dtype=np.uint8).reshape(-1, PIECE_BYTES)
    wide = rows.astype(np.uint32)
    places = _PLACES[rows]
    is_quad = (places != _NO_LETTER).all(axis=1)
    is_mark = rows[:, 0] == FILLER
    first, second = _pair(wide[:, 0], wide[:, 1]), _pair(wide[:, 2], wide[:, 3])
    ids = np.stack((first, second), axis=1)
    ids[is_quad, 0] = _QUADS_FROM + places[is_quad] @ _WEIGHTS
    ids[is_mark, 0] = _MARKS_FROM + wide[is_mark, 3]
    has_second = ~is_quad & ~is_mark & (rows[:, 2] != FILLER)
    is_token = np.stack((np.ones_like(has_second), has_second), axis=1)
    tokens: _Ids = ids[is_token]
    return tokens


def _pair(first: _Ids, second: _Ids) -> _Ids:
    return np.where(second == FILLER, first, _PAIRS_FROM + 256 * first + second).astype(np.uint32)


def token_bytes(token: int) -> bytes:
    """Return the bytes that *token* stands for, or the text of a mark.

    Raises:
        ValueError: if *token* is not in the vocabulary.
    """
    if not 0 <= token < SIZE:
        raise ValueError(f"token ids must be 0 to {SIZE - 1}, got {token}")
    if token < _PAIRS_FROM:
        return bytes((token,))
    if token < _QUADS_FROM:
        return (token - _PAIRS_FROM).to_bytes(2, "big")
    if token >= _MARKS_FROM:
        return MARKS[token - _MARKS_FROM].encode()
    return bytes(LETTERS[(token - _QUADS_FROM) // int(weight) % len(LETTERS)] for weight in _WEIGHTS)


def token_of_letters(number: int) -> int:
    """Return the token for four `LETTERS`, whose positions are the base-20 digits of *number*."""
    return _QUADS_FROM + number


def all_tokens() -> Iterator[bytes]:
    """Return the bytes of all tokens except the marks, in order of their ids."""
    for length in (1, 2):
        yield from (bytes(token) for token in product(range(256), repeat=length))
    yield from (bytes(token) for token in product(LETTERS, repeat=PIECE_BYTES))
