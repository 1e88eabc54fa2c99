"""Messages between replicas of the gateway, as bytes.

A frame is a byte for the version, 16 bytes for its sender, and MessagePack. It holds numbers, and hashes of prompts
under a key that the replicas share: no text, no key of a caller, no team.
"""

import math

import msgspec

from cache_index.prefix import HASH_BYTES

VERSION = 1
SENDER_BYTES = 16

_HEAD_BYTES = 1 + SENDER_BYTES


class UnreadableFrame(ValueError):
    """The frame is of another version, or no frame at all."""


class Booked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="b"):
    """A request was assigned to a worker. *number* identifies it among the requests of its sender."""

    number: int
    model: str
    """Name of the model in the settings."""
    worker: str
    uncached_tokens: float
    """Tokens of its prompt to be computed."""
    output_tokens: float
    """Expected tokens of its answer."""
    streams: bool
    has_begun: bool = False
    """Whether its prefill is over and it generates; only set in a snapshot."""
    hashes: bytes = b""
    """Hashes of the blocks of its text, as in `Prefix`; empty if the worker will not hold them afterwards."""
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


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="e"):
    number: int
    keep: bool
    """The worker holds its prompt."""
    completion_tokens: int = 0


Entry = Booked | Began | Released


class EntryBatch(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="batch"):
    """Entries in order. Their numbers have no gap as long as none is lost."""

    first: int
    """The number of the first one."""
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


class Beat(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="beat"):
    """Sign of life of the sender."""

    last: int
    """The number of the last entry that it has sent, or did not need to send."""


class SnapshotRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ask"):
    """The sender wants a snapshot."""

    of: bytes = b""
    """The replica that is asked; empty: all."""


class BookingSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="snapshot"):
    """All requests that the sender has on workers."""

    last: int
    """The number of the last entry that is in it."""
    bookings: tuple[Booked, ...]


class Farewell(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="farewell"):
    """The sender stops: it has nothing on any worker any more."""


Message = EntryBatch | Beat | SnapshotRequest | BookingSnapshot | Farewell

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encoded(sender: bytes, message: Message) -> bytes:
    """The frame. *sender* has 16 bytes."""
    return bytes((VERSION,)) + sender + _ENCODER.encode(message)


def sender_of(frame: bytes) -> bytes:
    """Return the sender of *frame*, before anything else of it is read.

    Raises:
        UnreadableFrame: the frame is of another version, or too short.
    """
    if len(frame) <= _HEAD_BYTES or frame[0] != VERSION:
        raise UnreadableFrame("a frame has an unsupported version")
    return frame[1:_HEAD_BYTES]


def decoded(frame: bytes) -> Message:
    """Return the message in *frame*. O(bytes).

    Raises:
        UnreadableFrame: it is malformed, or has impossible values.
    """
    sender_of(frame)
    try:
        message = _DECODER.decode(memoryview(frame)[_HEAD_BYTES:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnreadableFrame("a frame cannot be decoded") from None
    if not _can_be(message):
        raise UnreadableFrame("a frame has invalid values")
    return message


def _can_be(message: Message) -> bool:
    match message:
        case EntryBatch(first, entries):
            return first >= 0 and all(_entry_can_be(entry) for entry in entries)
        case Beat(last):
            return last >= 0
        case BookingSnapshot(last, bookings):
            return last >= 0 and all(_booked_can_be(booked) for booked in bookings)
    return True


def _entry_can_be(entry: Entry) -> bool:
    match entry:
        case Booked():
            return _booked_can_be(entry)
        case Released():
            return entry.completion_tokens >= 0
    return True


def _booked_can_be(booked: Booked) -> bool:
    numbers = booked.uncached_tokens, booked.output_tokens
    return (
        all(math.isfinite(number) and number >= 0.0 for number in numbers)
        and len(booked.hashes) % HASH_BYTES == 0
        and all(block_tokens > 0 and len(hashes) % HASH_BYTES == 0 for block_tokens, hashes in booked.exact)
    )
