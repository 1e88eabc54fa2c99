"""The identity of a block beside its tokens, as bytes, the same for engines and for prompts."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Item(NamedTuple):
    """An image, sound or video of which a block has a part."""

    identifier: str
    """vLLM's `mm_identifier`: a hash of the content, or the uuid that the caller gave."""
    offset: int
    """Position of its first token, counted from the start of the block; negative if it began in an earlier block."""


Piece = Item | str | bytes
"""An item; an item by its identifier alone, as vLLM below 0.20 has it; or the digest of prompt embeddings."""


def identity_of(pieces: Sequence[Piece]) -> bytes | None:
    """Return *pieces* as bytes, in order of place; None if *pieces* is empty. Only equal pieces give equal bytes."""
    return msgspec.msgpack.encode(pieces) if pieces else None


def read_extra_keys(
    keys: Sequence[object], *, is_root: bool, adapter: str | None
) -> tuple[str | None, list[bytes | None] | None]:
    """Return the salt, and the identity of each block, from vLLM's `extra_keys`: per block None, or a list.

    Its entries do not say what they are. A bare string is the adapter, in each block; or the salt, in the first block
    of a sequence and after all other strings; or an item without offset. A first block with such an item and no salt is
    taken for a salted one: it is never matched then, which costs a hit, but gives no wrong one.

    Raises:
        ValueError: an entry has another form.
    """
    salt = None
    extras = []
    for index, of_block in enumerate(keys):
        pieces = _pieces(of_block, adapter)
        if is_root and index == 0:
            salt = _take_salt(pieces)
        extras.append(identity_of(pieces))
    return salt, extras if any(extras) else None


def _pieces(of_block: object, adapter: str | None) -> list[Piece]:
    if of_block is None:
        return []
    match of_block:
        case [*entries]:
            pieces = [_piece(entry) for entry in entries]
        case _:
            raise ValueError("the extra keys of a block are not a list")
    if adapter is not None and adapter in pieces:
        pieces.remove(adapter)
    return pieces


def _piece(entry: object) -> Piece:
    match entry:
        case str() | bytes():
            return entry
        case [str(identifier), int(offset)]:
            return Item(identifier, offset)
        case _:
            raise ValueError("an extra key is not a string, bytes or a pair")


def _take_salt(pieces: list[Piece]) -> str | None:
    for index in reversed(range(len(pieces))):
        piece = pieces[index]
        if isinstance(piece, str):
            del pieces[index]
            return piece
    return None
