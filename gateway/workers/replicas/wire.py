"""Binary messages between gateway replicas.

A frame has one version byte, 16 bytes that identify the sender, and a MessagePack body. It contains numbers, and prompt
hashes under a key that the replicas share. It contains no text, no API key and no team name.
"""

import math

import msgspec

from cache_index.prefix import HASH_BYTES

VERSION = 1
SENDER_BYTES = 16

_HEAD_BYTES = 1 + SENDER_BYTES


class UnreadableFrame(ValueError):
    """Raised if the frame has another version or is malformed."""


class Booked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="b"):
    """Message: a request got a reservation on a worker. *number* identifies it among the sender's reservations."""

    number: int
    model: str
    """Name of the requested model in the settings."""
    worker: str
    uncached_tokens: float
    """Number of prompt tokens that must be computed."""
    output_tokens: float
    """Expected number of generated tokens."""
    streams: bool
    has_begun: bool = False
    """Whether the first token was generated. This is set only in snapshots."""
    hashes: bytes = b""
    """Block hashes of the prompt text, as in `Prefix`. They are empty if the worker will not keep the blocks."""
    exact: tuple[tuple[int, bytes], ...] = ()
    """Block size in tokens and block hashes of the exact prompt tokens, for each block size that workers use."""

    @property
    def size_bytes(self) -> int:
        """Approximate size of the encoded entry in bytes."""
        return self.hashes_bytes + len(self.model) + len(self.worker) + 64

    @property
    def hashes_bytes(self) -> int:
        return len(self.hashes) + sum([len(hashes) for _, hashes in self.exact])


class Began(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="f"):
    """Message: the first byte of the response to a request arrived."""

    number: int


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="e"):
    number: int
    keep: bool
    """Whether the worker keeps the prompt in its cache."""
    completion_tokens: int = 0


Entry = Booked | Began | Released


class EntryBatch(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="batch"):
    """Log entries in order. Their numbers are consecutive unless entries were lost."""

    first: int
    """Number of the first entry in the batch."""
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


class Beat(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="beat"):
    """Periodic message that shows that the sending replica is alive."""

    last: int
    """Number of the last log entry that was sent or that did not have to be sent."""


class SnapshotRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ask"):
    """Message that requests a snapshot of another replica's reservations."""

    of: bytes = b""
    """Id of the replica that should answer, or an empty value for all replicas."""


class BookingSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="snapshot"):
    """Message with all reservations that the sending replica holds on workers."""

    last: int
    """Number of the last log entry that the snapshot includes."""
    bookings: tuple[Booked, ...]


class Farewell(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="farewell"):
    """Last message of a replica that shuts down and has no more reservations on workers."""


Message = EntryBatch | Beat | SnapshotRequest | BookingSnapshot | Farewell

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encoded(sender: bytes, message: Message) -> bytes:
    """Encode *message* as a frame. *sender* is an id of 16 bytes."""
    return bytes((VERSION,)) + sender + _ENCODER.encode(message)


def sender_of(frame: bytes) -> bytes:
    """Return the sender of *frame* without decoding the message.

    Raises:
        UnreadableFrame: if the frame has another version or is too short.
    """
    if len(frame) <= _HEAD_BYTES or frame[0] != VERSION:
        raise UnreadableFrame("a message has an unsupported version")
    return frame[1:_HEAD_BYTES]


def decoded(frame: bytes) -> Message:
    """Decode the message in *frame*. O(bytes).

    Raises:
        UnreadableFrame: if the message is malformed or has impossible values.
    """
    sender_of(frame)
    try:
        message = _DECODER.decode(memoryview(frame)[_HEAD_BYTES:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnreadableFrame("a message cannot be decoded") from None
    if not _can_be(message):
        raise UnreadableFrame("a message has invalid values")
    return message


def _can_be(message: Message) -> bool:
    match message:
        case EntryBatch(first, entries):
            return first >= 0 and all(map(_entry_can_be, entries))
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
    # Compared one by one, because a generator would take longer than to decode the entry.
    if not (0.0 <= booked.uncached_tokens < math.inf and 0.0 <= booked.output_tokens < math.inf):
        return False
    if len(booked.hashes) % HASH_BYTES:
        return False
    for block_tokens, hashes in booked.exact:  # noqa: SIM110
        if block_tokens <= 0 or len(hashes) % HASH_BYTES:
            return False
    return True
