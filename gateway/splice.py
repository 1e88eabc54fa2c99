"""Changes to single values of a JSON object that leave every other byte as it came.

The gateway may have to put another model name, or a wish for usage, into a body that is not its own. Decoding and
encoding would change number formats, escapes and white space behind the caller's back, so the new value is put exactly
where the old one was.
"""

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from gateway.errors import MalformedBody

_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_USAGE: Mapping[str, bytes] = MappingProxyType({"include_usage": b"true"})
_USAGE_ONLY = b'{"include_usage":true}'
_LARGE_BYTES: Final = 32 * 1024


Member = tuple[str, int, int]
"""A key of an object, and where its value starts and ends. A bare tuple: one is made for every key of every splice."""
Places = tuple[Member, ...]
"""All members of an object, in the order of its bytes."""


def spliced(raw: bytes, changes: Mapping[str, bytes], places: Places | None = None) -> bytes:
    """The JSON object *raw* with the top-level keys of *changes* set to the JSON given for them. O(bytes), in C.

    Where a key stands more than once all its values are replaced; a key that is absent is added in front. *places* are
    those of *raw*, which are else looked for: that takes a millisecond for each megabyte.

    Raises:
        MalformedBody: *raw* is not a JSON object. Nothing that `gateway.body` accepted raises.
    """
    return _changed(raw, _members(raw) if places is None else places, changes)


def members_of(raw: bytes) -> Places:
    """The places of all members of the JSON object *raw*. Raises as `spliced`."""
    return tuple(_members(raw))


def asking_usage(
    raw: bytes,
    changes: Mapping[str, bytes] = _NOTHING,
    *,
    has_stream_options: bool = True,
    places: Places | None = None,
) -> bytes:
    """*raw* with ``stream_options.include_usage`` true and the other stream options kept; *changes* go in on the way.

    *has_stream_options* False (the body lacks the key, see `gateway.body.Body`) spares looking for it.

    Raises:
        MalformedBody: as `spliced`.
    """
    if not has_stream_options and not changes:
        return _added(raw, {"stream_options": _USAGE_ONLY})
    members = _members(raw) if places is None else places
    options = _USAGE_ONLY
    for name, start, end in members:
        if name == "stream_options":  # of several the last one counts, and it may be null
            options = spliced(raw[start:end], _USAGE) if raw.startswith(b"{", start) else _USAGE_ONLY
    return _changed(raw, members, {**changes, "stream_options": options})


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_key = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"((?:[^"\\]++|\\.)*+)"[ \t\n\r]*:[ \t\n\r]*').match
_any_key = re.compile(r'[ \t\n\r]*[{,][ \t\n\r]*("(?:[^"\\]++|\\.)*+")[ \t\n\r]*:[ \t\n\r]*').match
_end = re.compile(rb"[ \t\n\r]*\}[ \t\n\r]*").fullmatch
_scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode


def _members(raw: bytes) -> list[Member]:
    """The members of the object *raw* in the order of the text.

    msgspec finds the values but does not say where they are, and keeps only the last of several with one key. So the
    text is walked again from value to value. If each stands just where the walk expects it, and the object ends where
    the walk ends, the text has no other reading. If not, a key is there twice, and the slow way is taken.
    """
    try:
        values = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedBody("the body is not a JSON object") from None
    members: list[Member] = []
    end = 0
    for name, value in values.items():
        key = _key(raw, end)
        if key is None or not _is_named(key[1], name):
            return _members_of_odd(raw)
        start = key.end()
        text = memoryview(value)
        if not _stands_at(raw, text, start):
            return _members_of_odd(raw)
        end = start + len(text)
        members.append((name, start, end))
    return members if _end(raw, end) or not members else _members_of_odd(raw)


def _stands_at(raw: bytes, text: memoryview, start: int) -> bool:
    """Whether *text* is what *raw* has at *start*. A long one is compared piece by piece: a copy of it takes memory."""
    if len(text) <= _LARGE_BYTES:
        return raw.startswith(bytes(text), start)
    return all(
        raw.startswith(bytes(text[offset : offset + _LARGE_BYTES]), start + offset)
        for offset in range(0, len(text), _LARGE_BYTES)
    )


def _is_named(key: bytes, name: str) -> bool:
    """Whether *key*, as it is between its quotes, spells *name*."""
    if b"\\" not in key:
        return key == name.encode()
    spelled: str = msgspec.json.decode(b'"' + key + b'"', type=str)
    return spelled == name


def _members_of_odd(raw: bytes) -> list[Member]:
    """As `_members`, for an object that may have repeated keys. Makes every value, so it takes longer."""
    members: list[Member] = []
    place = end = 0  # the same place, in characters and in bytes
    try:
        text = raw.decode()
        while key := _any_key(text, place):
            start = end + len(text[place : key.end()].encode())
            _, place = _scan(text, key.end())
            end = start + len(text[key.end() : place].encode())
            members.append((msgspec.json.decode(key[1], type=str), start, end))
    except (UnicodeDecodeError, RecursionError):
        # Not chained: the cause may carry the whole body.
        raise MalformedBody("the body is not UTF-8, or nested too deeply") from None
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
        pieces[:1] = (text[:front], added, pieces[0][front:])  # every value comes behind the front
    return b"".join(pieces)


def _added(raw: bytes, members: Mapping[str, bytes]) -> bytes:
    """*raw*, an object with members, with *members*, which it lacks, in front of its own."""
    text = _sliceable(raw)
    front, added = _front(raw, members, to_empty=False)
    return b"".join((text[:front], added, text[front:]))


def _front(raw: bytes, members: Mapping[str, bytes], *, to_empty: bool) -> tuple[int, bytes]:
    """Where members are added to *raw*, and the text of *members* as it stands there."""
    added = b",".join([msgspec.json.encode(name) + b":" + value for name, value in members.items()])
    return raw.index(b"{") + 1, added if to_empty else added + b","


def _sliceable(raw: bytes) -> bytes | memoryview:
    """*raw* so that a large slice of it is not a copy: one copy of 8 MiB takes 2 ms."""
    return raw if len(raw) < _LARGE_BYTES else memoryview(raw)
