"""What replicas of the gateway tell each other, as bytes.

A frame is a byte for the version, 16 for who sends it, and MessagePack. It holds hashes of prompts under a key that the
replicas share, and numbers: no text, no key of a caller, no team.
"""

import math

import msgspec

from cache_index.prefix import HASH_BYTES

VERSION = 1
SENDER_BYTES = 16

_HEAD_BYTES = 1 + SENDER_BYTES


class Unreadable(ValueError):
    """The frame is of another version, or no frame at all."""


class Booked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="b"):
    """A request was given to a worker. *number* is its name among those of its sender."""

    number: int
    model: str
    """As it is configured."""
    worker: str
    uncached_tokens: float
    """Of its prompt, to be computed."""
    output_tokens: float
    """That its answer is expected to have."""
    streams: bool
    has_begun: bool = False
    """Its prefill is over: it generates. Only so in a snapshot."""
    hashes: bytes = b""
    """Of the blocks of its text, as `Prefix` has them; empty where the worker will not hold them afterwards."""
    exact: tuple[tuple[int, bytes], ...] = ()
    """The same of its exact tokens, with the tokens per block; once for each size of blocks that workers have."""

    @property
    def size_bytes(self) -> int:
        """About what it takes on the wire."""
        return self.hashes_bytes + len(self.model) + len(self.worker) + 64

    @property
    def hashes_bytes(self) -> int:
        return len(self.hashes) + sum([len(hashes) for _, hashes in self.exact])


class Began(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="f"):
    """The first byte of its answer came."""

    number: int


class Ended(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="e"):
    number: int
    keep: bool
    """The worker holds its prompt."""
    completion_tokens: int = 0


Entry = Booked | Began | Ended


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="batch"):
    """What happened, in its order. Entries are numbered, without a gap as long as none is lost."""

    first: int
    """The number of the first one."""
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


class Beat(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="beat"):
    """The sender lives."""

    last: int
    """The number of the last entry that it has sent, or did not need to send."""


class Ask(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ask"):
    """The sender wants a snapshot."""

    of: bytes = b""
    """Whose; empty: everybody's."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="snapshot"):
    """All that the sender has on workers."""

    last: int
    """The number of the last entry that is in it."""
    bookings: tuple[Booked, ...]


class Farewell(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="farewell"):
    """The sender stops: it has nothing on any worker any more."""


Message = Batch | Beat | Ask | Snapshot | Farewell

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encoded(sender: bytes, message: Message) -> bytes:
    """The frame. *sender* has 16 bytes."""
    return bytes((VERSION,)) + sender + _ENCODER.encode(message)


def sender_of(frame: bytes) -> bytes:
    """Who sent it, before anything else of it is read.

    Raises:
        Unreadable: the frame is of another version, or too short.
    """
    if len(frame) <= _HEAD_BYTES or frame[0] != VERSION:
        raise Unreadable("a frame of another version")
    return frame[1:_HEAD_BYTES]


def decoded(frame: bytes) -> Message:
    """What stands in it. O(its bytes).

    Raises:
        Unreadable: it is no frame, or its values cannot be.
    """
    sender_of(frame)
    try:
        message = _DECODER.decode(memoryview(frame)[_HEAD_BYTES:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable("a frame that cannot be decoded") from None
    if not _can_be(message):
        raise Unreadable("a frame with values that cannot be")
    return message


def _can_be(message: Message) -> bool:
    match message:
        case Batch(first, entries):
            return first >= 0 and all(_entry_can_be(entry) for entry in entries)
        case Beat(last):
            return last >= 0
        case Snapshot(last, bookings):
            return last >= 0 and all(_booked_can_be(booked) for booked in bookings)
    return True


def _entry_can_be(entry: Entry) -> bool:
    match entry:
        case Booked():
            return _booked_can_be(entry)
        case Ended():
            return entry.completion_tokens >= 0
    return True


def _booked_can_be(booked: Booked) -> bool:
    numbers = booked.uncached_tokens, booked.output_tokens
    return (
        all(math.isfinite(number) and number >= 0.0 for number in numbers)
        and len(booked.hashes) % HASH_BYTES == 0
        and all(block_tokens > 0 and len(hashes) % HASH_BYTES == 0 for block_tokens, hashes in booked.exact)
    )
