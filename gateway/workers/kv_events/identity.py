"""Encoding of the data that identify a block in addition to its tokens. Engines and prompts give the same bytes."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class Item(NamedTuple):
    """Image, audio or video that covers a part of a block or the whole block."""

    identifier: str
    """Identifier of the item, as vLLM's `mm_identifier`: a hash of its content, or the uuid that the caller sent."""
    offset: int
    """Position of the item's first token relative to the start of the block. It is negative if the item starts in an
    earlier block.
    """


Piece = Item | str | bytes
"""Part of a block identity: an item, an item identifier without offset (vLLM before 0.20), or a digest of prompt
embeddings.
"""


def identity_of(pieces: Sequence[Piece]) -> bytes | None:
    """Encode *pieces* as bytes in the given order, or return None without pieces. The encoding is unambiguous."""
    return msgspec.msgpack.encode(pieces) if pieces else None


def read_extra_keys(
    keys: Sequence[object], *, is_root: bool, adapter: str | None
) -> tuple[str | None, list[bytes | None] | None]:
    """Return the cache salt and the identity of each block from vLLM's `extra_keys`: one list or None per block.

    The keys have no type tag. A bare string is an adapter name (in every block), a salt (last string in the first block
    of a sequence), or an item without offset. A first block with such an item and no salt is treated as salted. This
    block is never matched, so a hit may be missed, but no false hit can occur.

    Raises:
        ValueError: if an entry has another form.
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
            raise ValueError("an extra key of a block is not a string, bytes or a pair")


def _take_salt(pieces: list[Piece]) -> str | None:
    for index in reversed(range(len(pieces))):
        piece = pieces[index]
        if isinstance(piece, str):
            del pieces[index]
            return piece
    return None
