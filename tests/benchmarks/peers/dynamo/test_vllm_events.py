import msgspec

from benchmarks.peers.dynamo import vllm_events
from benchmarks.peers.dynamo.caches import Announcement, Run


def test_a_stored_run_is_reported_as_vllm_reports_it() -> None:
    """A map with the hashes, the block before, the tokens of all blocks, and the fields that are always there."""
    run = Run(7, 2)
    ts, events, rank = msgspec.msgpack.decode(vllm_events.stored([Announcement(0, 2**63 + 5, (run,))]))
    tokens = events[0].pop("token_ids")

    assert (1_760_000_000.0, 0) == (ts, rank)
    assert [
        {
            "type": "BlockStored",
            "block_hashes": run.hashes,
            "parent_block_hash": 2**63 + 5,
            "block_size": 16,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            "extra_keys": [None, None],
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
        }
    ] == events
    assert run.tokens == b"".join(token.to_bytes(4, "little") for token in tokens)


def test_one_step_is_one_batch() -> None:
    """With an event for each request that completed a block."""
    _, events, _ = msgspec.msgpack.decode(
        vllm_events.stored([Announcement(0, 1, (Run(1, 1),)), Announcement(0, 2, (Run(2, 1),))])
    )

    assert [1, 2] == [event["parent_block_hash"] for event in events]


def test_removed_blocks_are_reported_together_or_one_by_one() -> None:
    """The second is vLLM's way."""
    together = msgspec.msgpack.decode(vllm_events.removed([5, 6], one_by_one=False))
    one_by_one = msgspec.msgpack.decode(vllm_events.removed([5, 6], one_by_one=True))

    assert [{"type": "BlockRemoved", "block_hashes": [5, 6], "medium": "GPU", "group_idx": 0}] == together[1]
    assert [[5], [6]] == [event["block_hashes"] for event in one_by_one[1]]
