"""The simulator's tokenizer: a token is a piece of at most four UTF-8 bytes, its id those bytes as an unsigned integer.

1. Reversible: a short piece is filled up with 0xFF, a byte that UTF-8 never contains.
2. Prefix-stable: text is cut at the marks of the chat template, and each part into pieces from its own start. So more
   text behind a prompt never changes the tokens before it, and an answer, put back into the next turn's messages, gives
   the very tokens that were generated.
"""

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

TOKEN_BYTES = 4
_FILLER = b"\xff"
_MARKS = re.compile(r"(<\|im_start\|>[^\n<]*\n|<\|im_end\|>\n?)")

END_OF_ANSWER = _FILLER * TOKEN_BYTES
"""The piece that ends an answer; it has no text."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Tokens as packed bytes, four each: slices, hashes and comparisons run over bytes."""

    packed: bytes

    @classmethod
    def from_text(cls, text: str) -> "TokenSequence":
        return cls(b"".join(_fill(part.encode("utf-8", "surrogatepass")) for part in _MARKS.split(text) if part))

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

    def pieces(self) -> list[bytes]:
        return [self.packed[at : at + TOKEN_BYTES] for at in range(0, len(self.packed), TOKEN_BYTES)]

    def text(self) -> str:
        return self.packed.replace(_FILLER, b"").decode("utf-8", "replace")

    def digest(self) -> str:
        """Hex; names the sequence in logs and tests."""
        return blake2b(self.packed, digest_size=16).hexdigest()


def piece_text(piece: bytes) -> str:
    """What one token shows by itself; a character cut in two shows as U+FFFD."""
    return piece.replace(_FILLER, b"").decode("utf-8", "replace")


def block_hashes(tokens: TokenSequence, *, block_size: int, scope: Iterable[str]) -> list[int]:
    """Chained hashes of the full blocks, unsigned 64 bit as vLLM's events carry them.

    *scope* (model, cache salt) goes into the first block, and so into all.
    """
    parent = blake2b(digest_size=8)
    for part in scope:
        parent.update(part.encode("utf-8", "surrogatepass") + _FILLER)
    chained = parent.digest()
    width = block_size * TOKEN_BYTES
    hashes = []
    for end in range(width, len(tokens.packed) + 1, width):
        chained = blake2b(chained + tokens.packed[end - width : end], digest_size=8).digest()
        hashes.append(int.from_bytes(chained, "big"))
    return hashes


def _fill(part: bytes) -> bytes:
    return part + _FILLER * (-len(part) % TOKEN_BYTES)
