"""The fields of KV events in msgpack.

From vLLM 0.24 and SGLang 0.5.20 on, an event is a map with its name under ``type``; before, an array with its name in
front. The fields have the same order in both, so one declaration serves for both. Nearly all may be missing: an older
engine does not know them, a newer one leaves out what is null.
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
"""vLLM sends unsigned ints of 64 bits or digests, SGLang signed ints."""

_HASH_BYTES = 8
_WITHIN_64_BITS = 2**64 - 1

STORED: Final = "BlockStored"
REMOVED: Final = "BlockRemoved"
CLEARED: Final = "AllBlocksCleared"


class EventBatch(msgspec.Struct, Generic[EventT], array_like=True, gc=False):
    """A whole payload."""

    ts: float
    events: list[EventT]
    rank: Any = None


class StoredFields(msgspec.Struct, Generic[HashT], gc=False):
    """vLLM 0.33; what stands after `locality` there is of no use here. `cache_salt` is SGLang's."""

    block_hashes: list[HashT]
    parent_block_hash: HashT | None
    token_ids: msgspec.Raw
    """See `packed_ids`: what costs most of all is not done for events that are of no use."""
    block_size: Natural
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | dict[str, Any] | None = None
    """Name of the adapter. In arrays, SGLang for a while had ``{"cache_salt": ...}`` in this place."""
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
    """One form in which all events of a batch can be written, with its decoders."""

    def __init__(self, *, batch: Any, event: Any, hashes_are_plain: bool) -> None:
        self.batch: msgspec.msgpack.Decoder[EventBatch[WireEvent]] = msgspec.msgpack.Decoder(batch)
        self.event: msgspec.msgpack.Decoder[WireEvent] = msgspec.msgpack.Decoder(event)
        self._hashes_are_plain = hashes_are_plain

    def hash(self, engine_hash: OpaqueHash | None) -> int | None:
        """See `plain_hash`; None stays None."""
        return None if engine_hash is None else plain_hash(engine_hash)

    def hashes(self, engine_hashes: list[Any]) -> list[int]:
        """Return each hash by `plain_hash`. This costs nothing if the form guarantees plain ones."""
        return engine_hashes if self._hashes_are_plain else [plain_hash(engine_hash) for engine_hash in engine_hashes]


def plain_hash(engine_hash: OpaqueHash) -> int:
    """Return *engine_hash* as an unsigned int of 64 bits: the last 8 bytes of a digest, as vLLM shortens it.

    Raises:
        ValueError: there are no bytes.
    """
    if isinstance(engine_hash, int):
        return engine_hash & _WITHIN_64_BITS
    if not engine_hash:
        raise ValueError("an empty hash")
    return int.from_bytes(engine_hash[-_HASH_BYTES:], "big")


def packed_ids(array: msgspec.Raw, *, is_compiled: bool = IS_COMPILED) -> TokenIds:
    """The token ids in *array*, a field `token_ids`; those beyond 32 bits are folded. O(ids).

    4 ns for each where the core *is_compiled*, 20 else, and the same result.

    Raises:
        ValueError: one of them is negative, or no int, or this is no array.
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
"""Decoder that takes a batch apart, and leaves the events encoded."""
