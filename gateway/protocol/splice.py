"""Changes to single values of a JSON object that leave every other byte unchanged.

The gateway may have to set another model name, or request usage, in a caller's body. Decoding and encoding would change
number formats, escapes and white space. So the new value replaces only the bytes of the old value.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from gateway.protocol.errors import MalformedBody

_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_USAGE: Mapping[str, bytes] = MappingProxyType({"include_usage": b"true"})
_USAGE_ONLY = b'{"include_usage":true}'
_LARGE_BYTES: Final = 32 * 1024


Member = tuple[str, int, int]
"""Member of a JSON object: its key, and the start and end of its value. A plain tuple is fast, and each splice creates
one per key.
"""
Places = tuple[Member, ...]
"""All members of a JSON object, in order."""


def spliced(raw: bytes, changes: Mapping[str, bytes], places: Places | None = None) -> bytes:
    """Return the JSON object *raw* with the top-level keys of *changes* set to the given JSON values. Takes O(bytes),
    in C.

    If a key is repeated, all of its values are replaced. A missing key is added at the front. *places* are the members
    of *raw*. Finding them takes a millisecond per megabyte.

    Raises:
        MalformedBody: if *raw* is not a JSON object. A body that `gateway.protocol.body` accepted never raises.
    """
    return _changed(raw, _members(raw) if places is None else places, changes)


def without(raw: bytes, names: Collection[str], places: Places | None = None) -> bytes:
    """Return the JSON object *raw* without the top-level keys *names*. All other values keep their bytes, but white
    space around them is removed if a key is. Raises the same errors as `spliced`.
    """
    members = _members(raw) if places is None else places
    kept = [member for member in members if member[0] not in names]
    if len(kept) == len(members):
        return raw
    text = _sliceable(raw)
    pieces: list[bytes | memoryview] = []
    for name, start, end in kept:
        pieces += (b"," if pieces else b"{", msgspec.json.encode(name), b":", text[start:end])
    return b"".join((*pieces, b"}")) if pieces else b"{}"


def members_of(raw: bytes) -> Places:
    """Return the positions of all members of the JSON object *raw*. Raises the same errors as `spliced`."""
    return tuple(_members(raw))


def asking_usage(
    raw: bytes,
    changes: Mapping[str, bytes] = _NOTHING,
    *,
    has_stream_options: bool = True,
    places: Places | None = None,
) -> bytes:
    """Return *raw* with ``stream_options.include_usage`` set to true and with *changes* applied. Other stream options
    stay.

    If *has_stream_options* is false, the body lacks that key (see `gateway.protocol.body.Body`), and no search for it
    is needed.

    Raises:
        MalformedBody: see `spliced`.
    """
    if not has_stream_options and not changes:
        return added(raw, {"stream_options": _USAGE_ONLY})
    members = _members(raw) if places is None else places
    options = _USAGE_ONLY
    for name, start, end in members:
        if name == "stream_options":  # the last of several counts, and it may be null
            options = spliced(raw[start:end], _USAGE) if raw.startswith(b"{", start) else _USAGE_ONLY
    return _changed(raw, members, {**changes, "stream_options": options})


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_key = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"((?:[^"\\]++|\\.)*+)"[ \t\n\r]*:[ \t\n\r]*').match
_any_key = re.compile(r'[ \t\n\r]*[{,][ \t\n\r]*("(?:[^"\\]++|\\.)*+")[ \t\n\r]*:[ \t\n\r]*').match
_end = re.compile(rb"[ \t\n\r]*\}[ \t\n\r]*").fullmatch
_scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode


def _members(raw: bytes) -> list[Member]:
    """Return the members of the JSON object *raw* in order.

    msgspec finds the values but not their positions, and keeps only the last value of a repeated key. So the text is
    scanned again from value to value. The result is right if each value is at the expected position and the object ends
    where the scan ends. Otherwise a key is repeated, and a slower method is used.
    """
    try:
        values = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedBody("The body is not a JSON object") from None
    members: list[Member] = []
    end = 0
    for name, value in values.items():
        key = _key(raw, end)
        if key is None or not _is_named(key[1], name):
            return _members_with_repeats(raw)
        start = key.end()
        text = memoryview(value)
        if not _stands_at(raw, text, start):
            return _members_with_repeats(raw)
        end = start + len(text)
        members.append((name, start, end))
    return members if _end(raw, end) or not members else _members_with_repeats(raw)


def _stands_at(raw: bytes, text: memoryview, start: int) -> bool:
    """Return whether *raw* contains *text* at position *start*. Long texts are compared in pieces, because a copy takes
    memory.
    """
    if len(text) <= _LARGE_BYTES:
        return raw.startswith(bytes(text), start)
    return all(
        raw.startswith(bytes(text[offset : offset + _LARGE_BYTES]), start + offset)
        for offset in range(0, len(text), _LARGE_BYTES)
    )


def _is_named(key: bytes, name: str) -> bool:
    """Return whether *key*, given as the bytes between its quotation marks, spells *name*."""
    if b"\\" not in key:
        return key == name.encode()
    spelled: str = msgspec.json.decode(b'"' + key + b'"', type=str)
    return spelled == name


def _members_with_repeats(raw: bytes) -> list[Member]:
    """Return the members of an object that can have repeated keys. It is slower than `_members`, because it decodes
    every value.
    """
    members: list[Member] = []
    place = end = 0  # one place, in characters and in bytes
    try:
        text = raw.decode()
        while key := _any_key(text, place):
            start = end + len(text[place : key.end()].encode())
            _, place = _scan(text, key.end())
            end = start + len(text[key.end() : place].encode())
            members.append((msgspec.json.decode(key[1], type=str), start, end))
    except (UnicodeDecodeError, RecursionError):
        # Not chained: the cause may carry the whole body.
        raise MalformedBody("The body is not UTF-8, or nested too deeply") from None
    return members


def _changed(raw: bytes, members: Sequence[Member], changes: Mapping[str, bytes]) -> bytes:
    text = _sliceable(raw)
    pieces: list[bytes | memoryview] = []
    absent = dict(changes)
    kept = 0
    for name, start, end in members:
        if name in changes:
            pieces += (text[kept:start], changes[name])
            kept = end
            absent.pop(name, None)
    pieces.append(text[kept:])
    if absent:
        front, added = _front(raw, absent, to_empty=not members)
        pieces[:1] = (text[:front], added, pieces[0][front:])  # all values come after the front
    return b"".join(pieces)


def added(raw: bytes, members: Mapping[str, bytes]) -> bytes:
    """Return *raw*, a non-empty JSON object, with new *members* at the front. Their keys must be absent in *raw*."""
    text = _sliceable(raw)
    front, added = _front(raw, members, to_empty=False)
    return b"".join((text[:front], added, text[front:]))


def _front(raw: bytes, members: Mapping[str, bytes], *, to_empty: bool) -> tuple[int, bytes]:
    """Return the position for new members in *raw*, and the text of *members* to insert there."""
    added = b",".join([msgspec.json.encode(name) + b":" + value for name, value in members.items()])
    return raw.index(b"{") + 1, added if to_empty else added + b","


def _sliceable(raw: bytes) -> bytes | memoryview:
    """Return a memory view of *raw* if *raw* is large, so that slices are not copies. A copy of 8 MiB takes 2 ms."""
    return raw if len(raw) < _LARGE_BYTES else memoryview(raw)
