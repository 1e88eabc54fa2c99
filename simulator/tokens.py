"""Tokenizer of the simulator. It cuts text into pieces of four UTF-8 bytes and maps each piece to vocabulary tokens.

1. Tokenization is reversible: the text can be restored from its tokens.
2. Tokenization is prefix-stable: text is split at the chat template's marks and after the line that follows a mark, and
   each part is cut into pieces from its start. Text that is appended to a prompt therefore changes only the tokens of
   the prompt's last piece. An answer that comes back in the next turn's messages gives exactly the generated tokens.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from simulator.vocabulary import FILLER, MARKS, PIECE_BYTES, ids_of, is_mark, mark_id, mark_piece, token_bytes

TOKEN_BYTES = 4
_MARKS = re.compile("(" + "|".join(map(re.escape, MARKS)) + ")")
_MARK_PIECES = {mark: mark_piece(mark) for mark in MARKS}
_SEPARATOR = b"\xff"  # never in UTF-8

END_OF_ANSWER = mark_id("<|im_end|>").to_bytes(TOKEN_BYTES, "little")
"""Packed token that ends an answer. It has no visible text."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Token ids that are packed as four little-endian bytes each, so that slicing, hashing and comparing are fast."""

    packed: bytes

    @classmethod
    def from_text(cls, text: str) -> "TokenSequence":
        """Return the tokens of *text*. The cost is linear in the length of the text."""
        return cls(ids_of(b"".join(_pieces(text))).astype("<u4").tobytes())

    @classmethod
    def from_ids(cls, ids: Iterable[int]) -> "TokenSequence":
        """Return a sequence of *ids*. Raises `OverflowError` for an id that is not an unsigned 32-bit integer."""
        return cls(array("I", ids).tobytes())

    def __len__(self) -> int:
        return len(self.packed) // TOKEN_BYTES

    def __add__(self, other: "TokenSequence") -> "TokenSequence":
        return TokenSequence(self.packed + other.packed)

    @property
    def ids(self) -> Sequence[int]:
        """Token ids of the sequence, as a view without a copy."""
        return memoryview(self.packed).cast("I")

    def each(self) -> list[bytes]:
        """Return the individual tokens of the sequence in packed form."""
        return [self.packed[at : at + TOKEN_BYTES] for at in range(0, len(self.packed), TOKEN_BYTES)]

    def text(self, *, skip_marks: bool = False) -> str:
        """Return the text of the tokens. Raises `ValueError` for an id that is not in the vocabulary."""
        tokens = (token for token in self.ids if not (skip_marks and is_mark(token)))
        return b"".join(map(token_bytes, tokens)).decode("utf-8", "replace")

    def digest(self) -> str:
        """Return a hexadecimal digest that identifies the sequence in logs and tests."""
        return blake2b(self.packed, digest_size=16).hexdigest()


def _pieces(text: str) -> Iterator[bytes]:
    for part in _MARKS.split(text):
        mark = _MARK_PIECES.get(part)
        if mark is not None:
            yield mark
            continue
        line, newline, rest = part.partition("\n")
        yield _fill(line + newline)
        yield _fill(rest)


def _fill(part: str) -> bytes:
    encoded = part.encode("utf-8", "surrogatepass")
    return encoded + bytes((FILLER,)) * (-len(encoded) % PIECE_BYTES)


def block_hashes(tokens: TokenSequence, *, block_size: int, scope: Iterable[str]) -> list[int]:
    """Return the chained hashes of the full blocks of a sequence, as unsigned 64-bit integers like vLLM's events.

    *scope* (model, adapter and cache salt) is part of the first block's hash, and thus affects all hashes.
    """
    parent = blake2b(digest_size=8)
    for part in scope:
        parent.update(part.encode("utf-8", "surrogatepass") + _SEPARATOR)
    chained = parent.digest()
    width = block_size * TOKEN_BYTES
    hashes = []
    for end in range(width, len(tokens.packed) + 1, width):
        chained = blake2b(chained + tokens.packed[end - width : end], digest_size=8).digest()
        hashes.append(int.from_bytes(chained, "big"))
    return hashes
