"""Decoder for the event batches of all engines and versions. Unusable events are counted, and decoding continues.

A batch whose events all have the same form is decoded directly into structs in one call, which is fast. Events are
decoded individually only if that fails.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from cache_index.event import Cleared, Event, Removed, Stored, Tier
from cache_index.tokens import TOKEN_BYTES
from gateway.protocol.errors import DECODE_ERRORS
from gateway.workers.kv_events.identity import read_extra_keys
from gateway.workers.kv_events.media import tier_of
from gateway.workers.kv_events.wire import (
    CLEARED,
    FORMS,
    REMOVED,
    STORED,
    UNSORTED,
    EventForm,
    OpaqueHash,
    RemovedFields,
    StoredFields,
    WireEvent,
    packed_ids,
)

PIECE_BLOCKS = 256
"""Number of blocks per list of events. To decode and index such a list takes about 0.5 ms, or 3 ms when hash tables
grow. Lists of twice this size took 4 ms.
"""
GROUPS_KEPT = 256
"""Maximum number of layer groups to remember as useless. Real models have only a few groups."""

PREFIX_GROUPS = frozenset({None, "full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of attention layers whose blocks any prompt with the same prefix can reuse, because they keep the state of
every token. The names are those of `vllm/v1/kv_cache_interface.py` in vLLM. None is for engines that do not report the
kind.
"""

IgnoredAs = Literal["other_group", "unknown_type", "unknown_place", "nameless_adapter"]
"""Reasons to ignore a valid event: blocks of other layers, an unknown type of event or storage medium, or an adapter
with only an engine-internal number (vLLM before 0.14).
"""
RefusedAs = Literal["bigram", "malformed"]
"""Reasons to reject an event, so that a part of the cache is unknown: token pairs instead of token ids (SGLang with
EAGLE), or malformed fields.
"""


class UndecodableError(Exception):
    """Raised if a payload is not a batch of events."""


class Decoder:
    """Decoder for the batches of one event stream. Its counters never decrease."""

    def __init__(self) -> None:
        # Plain numbers: they are counted for every event.
        self.stored_events = 0
        self.stored_blocks = 0
        self.removed_events = 0
        self.removed_blocks = 0
        self.cleared_events = 0
        self.ignored: Counter[IgnoredAs] = Counter()
        self.refused: Counter[RefusedAs] = Counter()
        # An engine does not change its ways, so the form of the last batch is tried first.
        self._forms: list[EventForm] = list(FORMS)
        # Removals name the group, but not its kind.
        self._useless_groups: set[int] = set()

    def decode(self, payload: bytes) -> Iterator[list[Event]]:
        """Yield the events in *payload* in order, in lists of about `PIECE_BLOCKS` blocks. Longer runs are split.

        Runs of useless events yield empty lists, so that the caller can pause between them. Each list is decoded on
        demand. O(bytes): 0.25 us for a block of 16 tokens with the compiled core and 0.5 us without it; 2 us for a
        single block.

        Raises:
            UndecodableError: at the first list, if *payload* is not a batch of events.
        """
        events: list[Event] = []
        blocks = 0
        useless = 0
        for form, alike in self._sorted(payload):
            for event in alike:
                converted = self._converted(form, event)
                if converted is None:
                    useless += 1
                    if useless % PIECE_BLOCKS == 0:
                        yield events
                        events, blocks = [], 0
                    continue
                size = 1 if isinstance(converted, Cleared) else len(converted.hashes)
                for part in (converted,) if size <= PIECE_BLOCKS else cut(converted, PIECE_BLOCKS):
                    events.append(part)
                    blocks += min(size, PIECE_BLOCKS)
                    if blocks >= PIECE_BLOCKS:
                        yield events
                        events, blocks = [], 0
        if events:
            yield events

    def _sorted(self, payload: bytes) -> Iterator[tuple[EventForm, Sequence[WireEvent]]]:
        """Return the events in order, each with its wire format."""
        for form in self._forms:
            try:
                batch = form.batch.decode(payload)
            except DECODE_ERRORS:
                continue
            self._prefer(form)
            return iter([(form, batch.events)])
        try:
            unsorted = UNSORTED.decode(payload)
        except DECODE_ERRORS as fault:
            raise UndecodableError from fault
        return filter(None, map(self._single, unsorted.events))

    def _single(self, raw: msgspec.Raw) -> tuple[EventForm, Sequence[WireEvent]] | None:
        for form in self._forms:
            try:
                event = form.event.decode(raw)
            except DECODE_ERRORS:
                continue
            self._prefer(form)
            return form, (event,)
        self._count_useless(raw)
        return None

    def _prefer(self, form: EventForm) -> None:
        if self._forms[0] is not form:
            self._forms.remove(form)
            self._forms.insert(0, form)

    def _count_useless(self, raw: msgspec.Raw) -> None:
        match _loosely(raw):
            case {"type": str(name)} | [str(name), *_] if name not in (STORED, REMOVED, CLEARED):
                self.ignored["unknown_type"] += 1
            case _:
                self.refused["malformed"] += 1

    def _converted(self, form: EventForm, event: WireEvent) -> Event | None:
        if isinstance(event, StoredFields):
            stored = self._stored(form, event)
            if stored is not None:
                self.stored_events += 1
                self.stored_blocks += len(stored.hashes)
            return stored
        if isinstance(event, RemovedFields):
            removed = self._removed(form, event)
            if removed is not None:
                self.removed_events += 1
                self.removed_blocks += len(removed.hashes)
            return removed
        self.cleared_events += 1
        return Cleared()

    def _stored(self, form: EventForm, event: StoredFields[OpaqueHash]) -> Stored | None:
        if not self._is_of_prefixes(event):
            self.ignored["other_group"] += 1
            return None
        tier = self._tier(event.medium, event.locality)
        if tier is None:
            return None
        adapter = event.lora_name if isinstance(event.lora_name, str) else None
        if adapter is None and event.lora_id is not None:
            self.ignored["nameless_adapter"] += 1
            return None
        try:
            hashes, parent = form.hashes(event.block_hashes), form.hash(event.parent_block_hash)
            salt, extras = _beside(event, adapter)
            ids = packed_ids(event.token_ids)
            block_size = _block_size(event) if ids else 0
        except ValueError:
            self.refused["bigram" if _has_pairs(event.token_ids) else "malformed"] += 1
            return None
        return Stored(hashes, parent, ids, block_size, tier, adapter, salt, extras)

    def _removed(self, form: EventForm, event: RemovedFields[OpaqueHash]) -> Removed | None:
        if event.group_idx in self._useless_groups:
            self.ignored["other_group"] += 1
            return None
        tier = self._tier(event.medium, event.locality)
        if tier is None:
            return None
        try:
            return Removed(form.hashes(event.block_hashes), tier)
        except ValueError:
            self.refused["malformed"] += 1
            return None

    def _tier(self, medium: str | None, locality: str | None) -> Tier | None:
        tier = tier_of(medium, locality)
        if tier is None:
            self.ignored["unknown_place"] += 1
        return tier

    def _is_of_prefixes(self, event: StoredFields[OpaqueHash]) -> bool:
        """Return whether stored blocks belong to layers that serve prompt prefixes. Remember groups of other layers."""
        group, kind = event.group_idx, event.kv_cache_spec_kind
        if kind is None:
            # Blocks that were offloaded come without the kind, so what is known of the group holds.
            return group not in self._useless_groups
        is_of_prefixes = kind in PREFIX_GROUPS
        if group is not None:
            if is_of_prefixes:
                self._useless_groups.discard(group)
            elif len(self._useless_groups) < GROUPS_KEPT:
                self._useless_groups.add(group)
        return is_of_prefixes


def cut(event: Event, blocks: int) -> Iterator[Event]:
    """Yield *event* as several equivalent events of at most *blocks* blocks each.

    Two kinds of events are not split. The first has no clear boundaries between blocks. The second starts a sequence:
    storing a prefix again from its first block does not mean the same as storing some blocks again.
    """
    if isinstance(event, Cleared) or len(event.hashes) <= blocks:
        yield event
        return
    if isinstance(event, Removed):
        for begin in range(0, len(event.hashes), blocks):
            yield Removed(event.hashes[begin : begin + blocks], event.tier)
        return
    begins_a_sequence = event.parent is None and bool(event.token_ids)
    block = event.block_size * (TOKEN_BYTES if isinstance(event.token_ids, bytes) else 1)
    if begins_a_sequence or len(event.token_ids) != len(event.hashes) * block:
        yield event
        return
    for begin in range(0, len(event.hashes), blocks):
        yield _run(event, begin, begin + blocks, block)


def _run(event: Stored, begin: int, end: int, block: int) -> Stored:
    """Return the part of *event* from block *begin* to block *end*. Each block has *block* elements of `token_ids`."""
    # Blocks that are named by hash alone follow nothing.
    follows = event.parent if begin == 0 or not event.token_ids else event.hashes[begin - 1]
    return Stored(
        event.hashes[begin:end],
        follows,
        event.token_ids[begin * block : end * block],
        event.block_size,
        event.tier,
        event.adapter,
        event.salt,
        None if event.extras is None else event.extras[begin:end],
    )


def _beside(event: StoredFields[OpaqueHash], adapter: str | None) -> tuple[str | None, list[bytes | None] | None]:
    """Return the cache salt and the extra data of each block. Raises ValueError if these fields are malformed."""
    is_root = event.parent_block_hash is None
    salt = event.cache_salt
    if isinstance(event.lora_name, dict):
        salt = event.lora_name.get("cache_salt")
        if salt is not None and not isinstance(salt, str):
            raise ValueError("the cache salt of a block is not a string")
    if not is_root:
        salt = None
    if event.extra_keys is None:
        return salt, None
    if len(event.extra_keys) != len(event.block_hashes):
        raise ValueError("a KV event must have as many extra keys as blocks")
    if not any(event.extra_keys):
        return salt, None
    own_salt, extras = read_extra_keys(event.extra_keys, is_root=is_root, adapter=adapter)
    return own_salt if salt is None else salt, extras


def _block_size(event: StoredFields[OpaqueHash]) -> int:
    """Return the number of tokens per block. Raises ValueError if the event has tokens but no blocks."""
    if not event.block_size or not event.block_hashes:
        raise ValueError("a KV event has tokens but no blocks")
    return event.block_size


def _has_pairs(token_ids: msgspec.Raw) -> bool:
    ids = _loosely(token_ids)
    return isinstance(ids, list) and any(isinstance(token, list) for token in ids)


def _loosely(raw: msgspec.Raw) -> object:
    try:
        return msgspec.msgpack.decode(raw)
    except DECODE_ERRORS:
        return None
