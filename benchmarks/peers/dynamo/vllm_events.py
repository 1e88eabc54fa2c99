"""KV events in the format of vLLM 0.24 and later: msgpack batches of maps (`vllm/distributed/kv_events.py`)."""

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks.peers.dynamo.caches import BLOCK_TOKENS, Announcement

SENT_AT = 1_760_000_000.0
"""Unix time in all events. A constant time makes the events of equal caches equal."""


def stored(step: Sequence[Announcement]) -> bytes:
    """Return a batch of the blocks that one engine stored in one step."""
    return _batch([_stored(announcement) for announcement in step])


def removed(hashes: Sequence[int], *, one_by_one: bool) -> bytes:
    """Return a batch of removed blocks. With *one_by_one*, each block has its own event, as in vLLM."""
    reported = [[value] for value in hashes] if one_by_one else [list(hashes)]
    return _batch(
        [{"type": "BlockRemoved", "block_hashes": each, "medium": "GPU", "group_idx": 0} for each in reported]
    )


def _stored(announcement: Announcement) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": announcement.hashes,
        "parent_block_hash": announcement.parent,
        "token_ids": array("I", announcement.tokens).tolist(),
        "block_size": BLOCK_TOKENS,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * announcement.blocks,
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


def _batch(events: Sequence[object]) -> bytes:
    return msgspec.msgpack.encode([SENT_AT, events, 0])
