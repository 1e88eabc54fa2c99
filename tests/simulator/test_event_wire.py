from typing import Any

import msgspec
import pytest

from engine_model.blocks import BlockScope
from simulator.cache_event import (
    BlockOffloaded,
    BlocksDropped,
    BlocksRemoved,
    BlocksStored,
    CacheCleared,
    CacheEvent,
)
from simulator.errors import Dialect
from simulator.event_wire import EventFormat, HashSpelling, Notation, encode_batch, wire_of

HIGH = 2**64 - 2
FIRST = BlocksStored([HIGH, 5], None, [1, 2, 3, 4])
NEXT = BlocksStored([6], 5, [7, 8], BlockScope("b", "salt"))
SALTED = BlocksStored([9], None, [7, 8], BlockScope(None, "salt"))
GONE = BlocksRemoved([5])


def decoded(
    dialect: Dialect, event_format: EventFormat, *events: CacheEvent, hashes: HashSpelling = "int"
) -> list[Any]:
    wire = wire_of(dialect, event_format, Notation(2, hashes, ("a", "b")))
    batch: list[Any] = msgspec.msgpack.decode(encode_batch(wire, events, unix_s=1.5))
    assert (1.5, 0) == (batch[0], batch[2])
    assert 3 == len(batch)
    events_reported: list[Any] = batch[1]
    return events_reported


def test_vllm_sends_maps() -> None:
    assert [
        {
            "type": "BlockStored",
            "block_hashes": [18446744073709551614, 5],
            "parent_block_hash": None,
            "token_ids": [1, 2, 3, 4],
            "block_size": 2,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            "extra_keys": [None, None],
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
        },
        {
            "type": "BlockStored",
            "block_hashes": [6],
            "parent_block_hash": 5,
            "token_ids": [7, 8],
            "block_size": 2,
            "lora_id": 2,
            "medium": "GPU",
            "lora_name": "b",
            "extra_keys": [["b"]],
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
        },
        {"type": "BlockRemoved", "block_hashes": [5], "medium": "GPU", "group_idx": 0},
        {"type": "AllBlocksCleared"},
    ] == decoded("vllm", "map", FIRST, NEXT, GONE, CacheCleared())


def test_an_older_vllm_sends_arrays() -> None:
    """Every field in its place, null or not."""
    assert [
        ["BlockStored", [HIGH, 5], None, [1, 2, 3, 4], 2, None, "GPU", None, [None, None], 0, "full_attention", None],
        ["BlockStored", [6], 5, [7, 8], 2, 2, "GPU", "b", [["b"]], 0, "full_attention", None],
        ["BlockStored", [9], None, [7, 8], 2, None, "GPU", None, [["salt"]], 0, "full_attention", None],
        ["BlockRemoved", [5], "GPU", 0],
        ["AllBlocksCleared"],
    ] == decoded("vllm", "array", FIRST, NEXT, SALTED, GONE, CacheCleared())


def test_vllm_reports_its_host_tier_by_hash() -> None:
    """Placeholders without tokens and parent, one for each stored block; removed blocks together."""
    offloaded, dropped = BlockOffloaded(HIGH), BlocksDropped([5, 6])

    assert [
        {
            "type": "BlockStored",
            "block_hashes": [HIGH],
            "parent_block_hash": None,
            "token_ids": [],
            "block_size": 0,
            "lora_id": None,
            "medium": "CPU",
            "lora_name": None,
            "group_idx": 0,
        },
        {"type": "BlockRemoved", "block_hashes": [5, 6], "medium": "CPU", "group_idx": 0},
    ] == decoded("vllm", "map", offloaded, dropped)
    assert [
        ["BlockStored", [HIGH], None, [], 0, None, "CPU", None, None, 0, None, None],
        ["BlockRemoved", [5, 6], "CPU", 0],
    ] == decoded("vllm", "array", offloaded, dropped)


@pytest.mark.parametrize("dialect", ["sglang", "dynamo"])
@pytest.mark.parametrize("event", [BlockOffloaded(5), BlocksDropped([5])])
def test_no_other_engine_s_host_tier_is_simulated(dialect: Dialect, event: CacheEvent) -> None:
    with pytest.raises(NotImplementedError, match="only vLLM's host tier is simulated"):
        decoded(dialect, "map", event)


def test_sglang_sends_maps_of_its_own() -> None:
    """Salt and adapter by name."""
    stored = {"type": "BlockStored", "block_size": 2, "lora_id": None, "medium": "GPU"}

    assert [
        stored | {"block_hashes": [-2, 5], "parent_block_hash": None, "token_ids": [1, 2, 3, 4]},
        stored
        | {
            "block_hashes": [6],
            "parent_block_hash": 5,
            "token_ids": [7, 8],
            "cache_salt": "salt",
            "lora_name": "b",
        },
        {"type": "BlockRemoved", "block_hashes": [5], "medium": "GPU"},
        {"type": "AllBlocksCleared"},
    ] == decoded("sglang", "map", FIRST, NEXT, GONE, CacheCleared(), hashes="signed")


def test_an_older_sglang_sends_arrays() -> None:
    """A salt stands as a map where vLLM has the adapter."""
    assert [
        ["BlockStored", [-2, 5], None, [1, 2, 3, 4], 2, None, "GPU"],
        ["BlockStored", [9], None, [7, 8], 2, None, "GPU", {"cache_salt": "salt"}],
        ["BlockRemoved", [5], "GPU"],
        ["AllBlocksCleared"],
    ] == decoded("sglang", "array", FIRST, SALTED, GONE, CacheCleared(), hashes="signed")


def test_dynamos_mocker_leaves_fields_out() -> None:
    """Medium and adapter are absent, unless there is one."""
    stored = {"type": "BlockStored", "block_size": 2, "group_idx": 0}

    assert [
        stored | {"block_hashes": [HIGH, 5], "parent_block_hash": None, "token_ids": [1, 2, 3, 4]},
        stored
        | {
            "block_hashes": [6],
            "parent_block_hash": 5,
            "token_ids": [7, 8],
            "lora_name": "b",
            "extra_keys": [["b"]],
        },
        {"type": "BlockRemoved", "block_hashes": [5], "group_idx": 0},
        {"type": "AllBlocksCleared"},
    ] == decoded("dynamo", "map", FIRST, NEXT, GONE, CacheCleared())


def test_a_hash_as_bytes_ends_in_what_it_is_as_an_int() -> None:
    """32 of them, as of SHA-256; parent and removals are spelled alike."""
    first, following, gone = decoded("vllm", "map", FIRST, NEXT, GONE, hashes="bytes")

    assert [32, 32] == [len(spelled) for spelled in first["block_hashes"]]
    assert [HIGH, 5] == [int.from_bytes(spelled[-8:], "big") for spelled in first["block_hashes"]]
    assert first["block_hashes"][1] == following["parent_block_hash"] == gone["block_hashes"][0]
    assert first["block_hashes"][0][:24] != first["block_hashes"][1][:24]


@pytest.mark.parametrize(
    ("dialect", "event_format", "merges"),
    [
        ("vllm", "map", False),
        ("vllm", "array", False),
        ("sglang", "map", True),
        ("sglang", "array", True),
        ("dynamo", "map", True),
    ],
)
def test_only_vllm_reports_each_removed_block_by_itself(
    dialect: Dialect, event_format: EventFormat, merges: bool
) -> None:
    """The others put several into one event."""
    assert merges is wire_of(dialect, event_format, Notation(16)).merges_removals


def test_an_adapter_that_was_loaded_later_has_a_number_of_its_own() -> None:
    """The same in all of its events, and no other's."""
    later = [BlocksStored([1], None, [1, 2], BlockScope(name)) for name in ("c", "d", "c", "b")]
    numbers = [event["lora_id"] for event in decoded("vllm", "map", *later)]

    assert numbers[0] == numbers[2]
    assert 3 == len(set(numbers))
    assert 2 == numbers[3]
