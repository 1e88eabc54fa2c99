"""Wire formats of KV events: msgpack, ``[seconds since 1970, [events], data-parallel rank]``.

    VllmMaps      vLLM since 0.24: maps with the key ``type``, without optional fields that are null
    VllmArrays    vLLM up to 0.23: arrays of all fields in a fixed order
    SglangMaps    SGLang since 0.5.20: maps with SGLang's own fields, and one event for adjacent pages
    SglangArrays  SGLang up to 0.5.18: arrays with the salt, as a map, at the position of vLLM's adapter
    MockerMaps    Dynamo's mocker: vLLM's maps without medium and adapter, and several hashes per removal event

Only vLLM's formats report a host tier: stored blocks by their hash alone, as OffloadingConnector does by default.

The sources are vllm/distributed/kv_events.py, vllm/distributed/kv_transfer/kv_connector/v1/offloading/events.py,
sglang/srt/disaggregation/kv_events.py, and the mocker's messages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, Literal, Protocol, TypeAlias
from zlib import crc32

import msgspec

from simulator.cache_event import (
    BlockOffloaded,
    BlocksDropped,
    BlocksRemoved,
    BlocksStored,
    CacheCleared,
    CacheEvent,
)
from simulator.errors import Dialect

EventFormat = Literal["map", "array"]
HashSpelling = Literal["int", "bytes", "signed"]
WireHash: TypeAlias = int | bytes

_GPU, _CPU = "GPU", "CPU"
_CLEARED = "AllBlocksCleared"
_DIGEST_BYTES, _HASH_BYTES = 32, 8  # of SHA-256; vLLM's int form has the last eight of them


def unsigned(block_hash: int) -> WireHash:
    """Return the block hash as an unsigned integer, which is vLLM's default."""
    return block_hash


def digest(block_hash: int) -> WireHash:
    """Return the whole digest of a block hash, as vLLM sends it if VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0."""
    end = block_hash.to_bytes(_HASH_BYTES, "big")
    return blake2b(end, digest_size=_DIGEST_BYTES - _HASH_BYTES).digest() + end


def signed(block_hash: int) -> WireHash:
    """Return the block hash as a signed integer, as SGLang sends it."""
    return block_hash - (1 << 64) if block_hash >> 63 else block_hash


HASHES: Mapping[HashSpelling, Callable[[int], WireHash]] = {"int": unsigned, "bytes": digest, "signed": signed}


class EventWire(Protocol):
    """Wire format of the KV events of one engine."""

    merges_removals: ClassVar[bool]
    """Whether several removed block hashes are sent as one event."""

    def stored(self, event: BlocksStored) -> Any: ...

    def removed(self, event: BlocksRemoved) -> Any: ...

    def cleared(self) -> Any: ...

    def offloaded(self, event: BlockOffloaded) -> Any: ...

    def dropped(self, event: BlocksDropped) -> Any: ...


@dataclass(frozen=True, slots=True)
class Notation:
    """Values that all wire formats of KV events need."""

    block_size: int
    """Tokens per block."""
    hashes: HashSpelling = "int"
    adapters: Sequence[str] = ()
    """Names of the LoRA adapters in the order of their process-local numbers, starting at 1."""

    def hash(self, block_hash: int) -> WireHash:
        return HASHES[self.hashes](block_hash)

    def all(self, hashes: Sequence[int]) -> list[WireHash]:
        return list(map(HASHES[self.hashes], hashes))

    def parent(self, event: BlocksStored) -> WireHash | None:
        return None if event.parent is None else self.hash(event.parent)

    def adapter_number(self, adapter: str | None) -> int | None:
        if adapter is None:
            return None
        # Of one that was loaded later any number will do that no other has, as long as it keeps it.
        return self.adapters.index(adapter) + 1 if adapter in self.adapters else 2**16 + crc32(adapter.encode())


@dataclass(frozen=True, slots=True)
class VllmMaps:
    notation: Notation
    merges_removals: ClassVar[bool] = False

    def stored(self, event: BlocksStored) -> Any:
        return {
            **_stored_map(self.notation, event),
            "lora_id": self.notation.adapter_number(event.scope.adapter),
            "medium": _GPU,
            "lora_name": event.scope.adapter,
            "extra_keys": event.extra_keys(),
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
        }

    def removed(self, event: BlocksRemoved) -> Any:
        return {**_removed_map(self.notation, event.hashes), "medium": _GPU, "group_idx": 0}

    def cleared(self) -> Any:
        return {"type": _CLEARED}

    def offloaded(self, event: BlockOffloaded) -> Any:
        return {
            **_placeholder_map(self.notation, event),
            "lora_id": None,
            "medium": _CPU,
            "lora_name": None,
            "group_idx": 0,
        }

    def dropped(self, event: BlocksDropped) -> Any:
        return {**_removed_map(self.notation, event.hashes), "medium": _CPU, "group_idx": 0}


@dataclass(frozen=True, slots=True)
class VllmArrays:
    """Wire format of vLLM's events as arrays, used up to version 0.23."""

    notation: Notation
    merges_removals: ClassVar[bool] = False

    def stored(self, event: BlocksStored) -> Any:
        number, name = self.notation.adapter_number(event.scope.adapter), event.scope.adapter
        fields = [number, _GPU, name, event.extra_keys(), 0, "full_attention", None]
        return [*_stored_array(self.notation, event), *fields]

    def removed(self, event: BlocksRemoved) -> Any:
        return ["BlockRemoved", self.notation.all(event.hashes), _GPU, 0]

    def cleared(self) -> Any:
        return [_CLEARED]

    def offloaded(self, event: BlockOffloaded) -> Any:
        return [*_placeholder_map(self.notation, event).values(), None, _CPU, None, None, 0, None, None]

    def dropped(self, event: BlocksDropped) -> Any:
        return ["BlockRemoved", self.notation.all(event.hashes), _CPU, 0]


class _OnlyGpu:
    """Part of those wire formats for which no host tier is simulated."""

    __slots__ = ()

    def offloaded(self, event: BlockOffloaded) -> Any:
        raise NotImplementedError("only vLLM's host tier is simulated")

    def dropped(self, event: BlocksDropped) -> Any:
        raise NotImplementedError("only vLLM's host tier is simulated")


@dataclass(frozen=True, slots=True)
class SglangMaps(_OnlyGpu):
    notation: Notation
    merges_removals: ClassVar[bool] = True

    def stored(self, event: BlocksStored) -> Any:
        names = {"cache_salt": event.scope.salt, "lora_name": event.scope.adapter}
        return {
            **_stored_map(self.notation, event),
            "lora_id": None,
            "medium": _GPU,
            **{name: value for name, value in names.items() if value is not None},
        }

    def removed(self, event: BlocksRemoved) -> Any:
        return {**_removed_map(self.notation, event.hashes), "medium": _GPU}

    def cleared(self) -> Any:
        return {"type": _CLEARED}


@dataclass(frozen=True, slots=True)
class SglangArrays(_OnlyGpu):
    notation: Notation
    merges_removals: ClassVar[bool] = True

    def stored(self, event: BlocksStored) -> Any:
        salt = [] if event.scope.salt is None else [{"cache_salt": event.scope.salt}]
        return [*_stored_array(self.notation, event), None, _GPU, *salt]

    def removed(self, event: BlocksRemoved) -> Any:
        return ["BlockRemoved", self.notation.all(event.hashes), _GPU]

    def cleared(self) -> Any:
        return [_CLEARED]


@dataclass(frozen=True, slots=True)
class MockerMaps(_OnlyGpu):
    """Wire format of Dynamo's mocker. It defines no salts and adapters, which are encoded as in vLLM if present."""

    notation: Notation
    merges_removals: ClassVar[bool] = True

    def stored(self, event: BlocksStored) -> Any:
        scope = event.scope
        lora = {} if scope.adapter is None else {"lora_name": scope.adapter}
        extras = {} if scope.adapter is None and scope.salt is None else {"extra_keys": event.extra_keys()}
        return {**_stored_map(self.notation, event), **lora, **extras, "group_idx": 0}

    def removed(self, event: BlocksRemoved) -> Any:
        return {**_removed_map(self.notation, event.hashes), "group_idx": 0}

    def cleared(self) -> Any:
        return {"type": _CLEARED}


def wire_of(dialect: Dialect, event_format: EventFormat, notation: Notation) -> EventWire:
    if dialect == "dynamo":
        return MockerMaps(notation)
    if dialect == "sglang":
        return SglangMaps(notation) if event_format == "map" else SglangArrays(notation)
    return VllmMaps(notation) if event_format == "map" else VllmArrays(notation)


def encode_batch(wire: EventWire, events: Sequence[CacheEvent], *, unix_s: float, rank: int = 0) -> bytes:
    """Return the payload of one event message. The cost is linear in the number of tokens."""
    return msgspec.msgpack.encode([unix_s, [_spelled(wire, event) for event in events], rank])


def _spelled(wire: EventWire, event: CacheEvent) -> Any:
    match event:
        case BlocksStored():
            return wire.stored(event)
        case BlocksRemoved():
            return wire.removed(event)
        case CacheCleared():
            return wire.cleared()
        case BlockOffloaded():
            return wire.offloaded(event)
        case BlocksDropped():
            return wire.dropped(event)


def _stored_map(notation: Notation, event: BlocksStored) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": notation.all(event.hashes),
        "parent_block_hash": notation.parent(event),
        "token_ids": list(event.token_ids),
        "block_size": notation.block_size,
    }


def _stored_array(notation: Notation, event: BlocksStored) -> list[Any]:
    """Return the first fields of the array for stored blocks, which are the same for all engines."""
    return list(_stored_map(notation, event).values())


def _placeholder_map(notation: Notation, event: BlockOffloaded) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": [notation.hash(event.hash)],
        "parent_block_hash": None,
        "token_ids": [],
        "block_size": 0,
    }


def _removed_map(notation: Notation, hashes: Sequence[int]) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": notation.all(hashes)}
