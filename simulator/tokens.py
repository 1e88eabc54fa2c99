"""The simulator's tokenizer: text is cut into pieces of four UTF-8 bytes, and those into tokens of the vocabulary.

1. Reversible: tokens give their text back.
2. Prefix-stable: text is cut at the marks of the chat template and after the line that follows one, and each part into
   pieces from its own start. So more text behind a prompt never changes the tokens before it, but those of its last
   piece, and an answer, put back into the next turn's messages, gives the very tokens that were generated.
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
"""The token that ends an answer, packed; it is not shown."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Token ids, packed in four bytes each, little-endian: slices, hashes and comparisons run over bytes."""

    packed: bytes

    @classmethod
    def from_text(cls, text: str) -> "TokenSequence":
        """O(bytes)."""
        return cls(ids_of(b"".join(_pieces(text))).astype("<u4").tobytes())

    @classmethod
    def from_ids(cls, ids: Iterable[int]) -> "TokenSequence":
        """Raises `OverflowError` for an id that is not an unsigned 32-bit integer."""
        return cls(array("I", ids).tobytes())

    def __len__(self) -> int:
        return len(self.packed) // TOKEN_BYTES

    def __add__(self, other: "TokenSequence") -> "TokenSequence":
        return TokenSequence(self.packed + other.packed)

    @property
    def ids(self) -> Sequence[int]:
        """The ids, without a copy."""
        return memoryview(self.packed).cast("I")

    def each(self) -> list[bytes]:
        """The tokens one by one, packed."""
        return [self.packed[at : at + TOKEN_BYTES] for at in range(0, len(self.packed), TOKEN_BYTES)]

    def text(self, *, skip_marks: bool = False) -> str:
        """Raises `ValueError` for an id that is not in the vocabulary."""
        tokens = (token for token in self.ids if not (skip_marks and is_mark(token)))
        return b"".join(map(token_bytes, tokens)).decode("utf-8", "replace")

    def digest(self) -> str:
        """Hex; names the sequence in logs and tests."""
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
    """Chained hashes of the full blocks, unsigned 64 bit as vLLM's events carry them.

    *scope* (model, adapter, cache salt) goes into the first block, and so into all.
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
