"""MessagePack fields of KV events.

Since vLLM 0.24 and SGLang 0.5.20, an event is a map with its type under ``type``. Older versions use an array that
starts with the type. Both forms have the fields in the same order, so one declaration covers both. Most fields are
optional: older engines do not know them, and newer ones omit null values.
"""

from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from cache_index.compiled import IS_COMPILED
from cache_index.tokens import TokenIds, pack
from cache_index.unpacking import unpack

HashT = TypeVar("HashT")
EventT = TypeVar("EventT")

Natural = Annotated[int, msgspec.Meta(ge=0)]
OpaqueHash = int | bytes
"""Block hash of an engine. vLLM sends unsigned 64-bit integers or digests, and SGLang sends signed integers."""

_HASH_BYTES = 8
_WITHIN_64_BITS = 2**64 - 1

STORED: Final = "BlockStored"
REMOVED: Final = "BlockRemoved"
CLEARED: Final = "AllBlocksCleared"


class EventBatch(msgspec.Struct, Generic[EventT], array_like=True, gc=False):
    """Payload of a batch of events."""

    ts: float
    events: list[EventT]
    rank: Any = None


class StoredFields(msgspec.Struct, Generic[HashT], gc=False):
    """Fields of an event about stored blocks in vLLM 0.33. Fields after `locality` are not used. `cache_salt` is
    specific to SGLang.
    """

    block_hashes: list[HashT]
    parent_block_hash: HashT | None
    token_ids: msgspec.Raw
    """Encoded token ids, which are decoded only for events that are used, because decoding is expensive; see
    `packed_ids`.
    """
    block_size: Natural
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | dict[str, Any] | None = None
    """Name of the LoRA adapter. In arrays, some versions of SGLang put ``{"cache_salt": ...}`` in this field."""
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: Any = None
    locality: str | None = None
    cache_salt: str | None = None


class RemovedFields(msgspec.Struct, Generic[HashT], gc=False):
    block_hashes: list[HashT]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


class StoredMap(StoredFields[HashT], Generic[HashT], tag=STORED, gc=False):
    pass


class RemovedMap(RemovedFields[HashT], Generic[HashT], tag=REMOVED, gc=False):
    pass


class ClearedMap(msgspec.Struct, tag=CLEARED, gc=False):
    pass


class StoredArray(StoredFields[HashT], Generic[HashT], tag=STORED, array_like=True, gc=False):
    pass


class RemovedArray(RemovedFields[HashT], Generic[HashT], tag=REMOVED, array_like=True, gc=False):
    pass


class ClearedArray(msgspec.Struct, tag=CLEARED, array_like=True, gc=False):
    pass


WireEvent = StoredFields[Any] | RemovedFields[Any] | ClearedMap | ClearedArray


class EventForm:
    """Encoding of the events in a batch, with the decoders for this encoding."""

    def __init__(self, *, batch: Any, event: Any, hashes_are_plain: bool) -> None:
        self.batch: msgspec.msgpack.Decoder[EventBatch[WireEvent]] = msgspec.msgpack.Decoder(batch)
        self.event: msgspec.msgpack.Decoder[WireEvent] = msgspec.msgpack.Decoder(event)
        self._hashes_are_plain = hashes_are_plain

    def hash(self, engine_hash: OpaqueHash | None) -> int | None:
        """Return the result of `plain_hash`, or None for None."""
        return None if engine_hash is None else plain_hash(engine_hash)

    def hashes(self, engine_hashes: list[Any]) -> list[int]:
        """Return each hash as converted by `plain_hash`. With guaranteed plain hashes, this takes no time."""
        return engine_hashes if self._hashes_are_plain else [plain_hash(engine_hash) for engine_hash in engine_hashes]


def plain_hash(engine_hash: OpaqueHash) -> int:
    """Convert a block hash to an unsigned 64-bit integer. A digest is shortened to its last 8 bytes, as vLLM does.

    Raises:
        ValueError: if the hash is empty.
    """
    if isinstance(engine_hash, int):
        return engine_hash & _WITHIN_64_BITS
    if not engine_hash:
        raise ValueError("a block hash in a KV event is empty")
    return int.from_bytes(engine_hash[-_HASH_BYTES:], "big")


def packed_ids(array: msgspec.Raw, *, is_compiled: bool = IS_COMPILED) -> TokenIds:
    """Return the token ids in the MessagePack array *array*. Ids beyond 32 bits are folded to 32 bits. O(ids).

    The cost per id is 4 ns with the compiled core (*is_compiled*) and 20 ns without it. The result is the same.

    Raises:
        ValueError: if *array* is not an array of non-negative integers.
    """
    packed = unpack(bytes(array)) if is_compiled else None
    return pack(_IDS.decode(array)) if packed is None else packed


_PlainMap = StoredMap[Natural] | RemovedMap[Natural] | ClearedMap
_OpaqueMap = StoredMap[OpaqueHash] | RemovedMap[OpaqueHash] | ClearedMap
_PlainArray = StoredArray[Natural] | RemovedArray[Natural] | ClearedArray
_OpaqueArray = StoredArray[OpaqueHash] | RemovedArray[OpaqueHash] | ClearedArray

FORMS: Final = (
    EventForm(batch=EventBatch[_PlainMap], event=_PlainMap, hashes_are_plain=True),
    EventForm(batch=EventBatch[_OpaqueMap], event=_OpaqueMap, hashes_are_plain=False),
    EventForm(batch=EventBatch[_PlainArray], event=_PlainArray, hashes_are_plain=True),
    EventForm(batch=EventBatch[_OpaqueArray], event=_OpaqueArray, hashes_are_plain=False),
)
_IDS: Final = msgspec.msgpack.Decoder(list[Natural])
UNSORTED: Final = msgspec.msgpack.Decoder(EventBatch[msgspec.Raw])
"""Decoder that splits a batch into events and leaves the events encoded."""
