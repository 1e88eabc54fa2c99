"""Payloads to events."""

import contextlib
from array import array
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_index.event import Cleared, Event, Removed, Stored, Tier
from cache_index.tokens import pack
from gateway.workers.kv_events.decoding import PIECE_BLOCKS, Decoder, UndecodableError, cut
from gateway.workers.kv_events.identity import Item, identity_of
from tests.gateway.workers.kv_events.examples import batch, removed, stored
from tests.gateway.workers.kv_events.recorded import KINDS, frames


def events_in(payload: bytes, decoder: Decoder | None = None) -> list[Event]:
    return [event for piece in (decoder or Decoder()).decode(payload) for event in piece]


def ids_in(event: Stored) -> list[int]:
    assert isinstance(event.token_ids, bytes)
    return array("I", event.token_ids).tolist()


def named(counts: Mapping[Any, int]) -> dict[str, int]:
    return dict(counts)


def decoded(*events: Any) -> tuple[list[Event], dict[str, int], dict[str, int]]:
    """What *events* come to; what was ignored; what was refused."""
    decoder = Decoder()
    taken = events_in(batch(*events), decoder)
    return taken, named(decoder.ignored), named(decoder.refused)


# ---- what engines send

A, B = 2065545987729268343, 4118834454899676085
C, D = 17555129173936401041, 462444622204691719
E, F = 2678583014016272466, 5291786262046659269


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_engine(kind: str) -> None:
    """vLLM 0.32: a prompt, an answer, a branch, a salt, evictions, a cache that was cleared.

    Its hashes are ints in one recording and digests in the other, and the same ones.
    """
    decoder = Decoder()
    batches = [events_in(message[2], decoder) for message in frames(kind, "published")]
    prompt = [*range(300, 370), 7999, 8]
    answer = batches[1][0]
    assert isinstance(answer, Stored)
    after_eviction = batches[4][4]
    assert isinstance(after_eviction, Stored)

    assert [Stored([A, B], None, pack(prompt[:64]), 32)] == batches[0]
    assert ([C], B, prompt[64:], 32) == (answer.hashes, answer.parent, ids_in(answer)[:8], len(ids_in(answer)))
    assert [Stored([D], B, pack([1000] * 32), 32)] == batches[2]
    assert [Stored([E, F], None, pack(prompt[:64]), 32, salt="team-a")] == batches[3]
    assert [Removed([C]), Removed([D]), Removed([B]), Removed([A])] == batches[4][:4]
    assert (8, None, [*range(2000, 2256)]) == (
        len(after_eviction.hashes),
        after_eviction.parent,
        ids_in(after_eviction),
    )
    assert [Cleared(), Stored([13907755898995373680], None, pack([*range(32)]), 32)] == batches[5]
    assert (6, 15) == (decoder.stored_events, decoder.stored_blocks)
    assert (4, 4, 1) == (decoder.removed_events, decoder.removed_blocks, decoder.cleared_events)
    assert ({}, {}) == (decoder.ignored, decoder.refused)


def test_arrays_of_the_oldest_vllm() -> None:
    """0.9: no medium, nothing beyond."""
    events = (["BlockStored", [1, 2], None, [5, 6, 7, 8], 2, None], ["BlockRemoved", [1]], ["AllBlocksCleared"])

    assert ([Stored([1, 2], None, pack([5, 6, 7, 8]), 2), Removed([1]), Cleared()], {}, {}) == decoded(*events)


def test_arrays_of_the_last_vllm_that_had_them() -> None:
    """0.23: medium, adapter, extra keys, group and its kind."""
    event = [
        "BlockStored",
        [b"\x01" * 32],
        9,
        [5, 6],
        2,
        4,
        "CPU",
        "lora",
        [["lora", ["img", 0]]],
        0,
        "mla_attention",
        None,
    ]
    expected = Stored(
        [0x0101010101010101], 9, pack([5, 6]), 2, Tier.CPU, adapter="lora", extras=[identity_of([Item("img", 0)])]
    )

    assert ([expected, Removed([3], Tier.CPU)], {}, {}) == decoded(event, ["BlockRemoved", [3], "CPU", 0])


def test_maps_of_the_newest_vllm() -> None:
    """0.33: all fields, of which some are of no use here."""
    event = stored(
        1,
        parent=2,
        extra_keys=[None],
        group_idx=0,
        kv_cache_spec_kind="full_attention",
        kv_cache_spec_sliding_window=None,
        locality="LOCAL",
        ownership="disk-1",
        session_id="abc",
        lookahead_token_ids=[[3, 4]],
    )

    assert ([Stored([1], 2, pack([1, 7]), 2)], {}, {}) == decoded(event)


def test_a_placeholder_of_offloading() -> None:
    """vLLM names the blocks by hash alone, and says of which group."""
    event = stored(1, medium="STORAGE", group_idx=0) | {"token_ids": [], "block_size": 0}

    assert ([Stored([1], None, b"", 0, Tier.DISK)], {}, {}) == decoded(event)
    assert ([Stored([1], None, b"", 0)], {}, {}) == decoded(stored(1) | {"token_ids": []})


def test_maps_of_sglang() -> None:
    """Signed hashes, pages of one token, a salt of their own field, and no medium where it is the GPU."""
    page = {"type": "BlockStored", "block_hashes": [-1], "parent_block_hash": None, "token_ids": [5], "block_size": 1}
    salted = page | {"lora_id": None, "medium": "CPU_PINNED", "cache_salt": "s", "lora_name": "lora"}
    follower = salted | {"parent_block_hash": -1, "block_hashes": [2]}

    assert (
        [
            Stored([2**64 - 1], None, pack([5]), 1),
            Stored([2**64 - 1], None, pack([5]), 1, Tier.CPU, "lora", "s"),
            Stored([2], 2**64 - 1, pack([5]), 1, Tier.CPU, "lora"),
        ],
        {},
        {},
    ) == decoded(page, salted, follower)


def test_a_short_last_page_of_sglang() -> None:
    """Its size is its length."""
    events = (["BlockStored", [-3], None, [1, 2, 3, 4], 4], ["BlockStored", [-4], -3, [5], 1, None, "DISK"])

    assert (
        [Stored([2**64 - 3], None, pack([1, 2, 3, 4]), 4), Stored([2**64 - 4], 2**64 - 3, pack([5]), 1, Tier.DISK)],
        {},
        {},
    ) == decoded(*events)


def test_salted_arrays_of_sglang() -> None:
    """For a while a map stood where vLLM has the adapter."""
    event = ["BlockStored", [-1], None, [5], 1, None, "GPU", {"cache_salt": "s"}]

    assert ([Stored([2**64 - 1], None, pack([5]), 1, salt="s")], {}, {}) == decoded(event)
    assert ([], {}, {"malformed": 1}) == decoded([*event[:-1], {"cache_salt": 5}])
    assert ([Stored([2**64 - 1], None, pack([5]), 1)], {}, {}) == decoded([*event[:-1], {}])


def test_wide_image_ids_of_sglang() -> None:
    """62 bits; they are folded as those of prompts are."""
    wide = 2**61 + 5

    assert ([Stored([1], None, pack([wide, wide]), 2)], {}, {}) == decoded(stored(1) | {"token_ids": [wide, wide]})


def test_pairs_for_token_ids_are_refused() -> None:
    """SGLang with EAGLE; what they stand for is not known here."""
    as_map = stored(1) | {"token_ids": [[1, 2], [2, 3]]}

    assert ([Removed([5])], {}, {"bigram": 2}) == decoded(
        as_map, removed(5), ["BlockStored", [1], None, [[1, 2]], 1, None, "GPU"]
    )


def test_what_the_dynamo_mocker_leaves_out() -> None:
    """Adapter and medium."""
    event = {
        "type": "BlockStored",
        "block_hashes": [2**63],
        "parent_block_hash": None,
        "token_ids": [5, 6],
        "block_size": 2,
        "group_idx": 0,
    }

    assert ([Stored([2**63], None, pack([5, 6]), 2), Removed([1, 2])], {}, {}) == decoded(
        event, {"type": "BlockRemoved", "block_hashes": [1, 2], "group_idx": 0}
    )


def test_what_lies_elsewhere() -> None:
    """Remote or external blocks are shared ones; LMCache writes its medium small."""
    assert (
        [Stored([1], None, pack([1, 7]), 2, Tier.SHARED), Removed([2], Tier.SHARED), Removed([3], Tier.CPU)],
        {"unknown_place": 2},
        {},
    ) == decoded(
        stored(1, locality="REMOTE"),
        removed(2, medium="EXTERNAL"),
        removed(3, medium="cpu"),
        removed(4, medium="TAPE"),
        stored(5, locality="MARS"),
    )


# ---- adapters, salts, groups


def test_an_adapter_without_a_name_is_ignored() -> None:
    """vLLM below 0.14 numbers adapters within a process: no prompt can be matched with that."""
    assert ([], {"nameless_adapter": 1}, {}) == decoded(stored(1, lora_id=3))


def test_blocks_of_other_layers_are_ignored() -> None:
    """Also when they are removed, which has their hash, but not their kind: the same hash is held for both."""
    assert (
        [Stored([1], None, pack([1, 7]), 2), Removed([1])],
        {"other_group": 3},
        {},
    ) == decoded(
        stored(1, group_idx=0, kv_cache_spec_kind="full_attention"),
        stored(1, group_idx=1, kv_cache_spec_kind="sliding_window"),
        stored(1, group_idx=1, medium="CPU"),
        removed(1, group_idx=1),
        removed(1, group_idx=0),
    )


def test_a_group_can_become_useful() -> None:
    """Another model may run there after a restart."""
    decoder = Decoder()
    events_in(batch(stored(1, group_idx=1, kv_cache_spec_kind="mamba")), decoder)
    useful = batch(stored(1, group_idx=1, kv_cache_spec_kind="sink_full_attention"), removed(1, group_idx=1))

    assert 2 == len(events_in(useful, decoder))


def test_not_every_group_is_remembered() -> None:
    """Numbers from the wire do not fill the memory."""
    decoder = Decoder()
    kinds = [stored(1, group_idx=group, kv_cache_spec_kind="mamba") for group in range(1000)]
    events_in(batch(*kinds), decoder)

    assert 1 == len(events_in(batch(removed(1, group_idx=999)), decoder))
    assert [] == events_in(batch(stored(2, kv_cache_spec_kind="mamba")), decoder)


def test_a_salt_of_its_own_field_is_the_salt() -> None:
    """Extra keys do not matter then."""
    assert ([Stored([1], None, pack([1, 7]), 2, salt="field")], {}, {}) == decoded(
        stored(1, cache_salt="field", extra_keys=[["other"]])
    )


# ---- what is wrong


@pytest.mark.parametrize(
    "event",
    [
        stored(1) | {"block_hashes": [1.5]},
        stored(1) | {"block_hashes": [""]},
        stored(b""),
        removed(b""),
        stored(1, parent=b""),
        stored(1) | {"block_hashes": 1},
        stored(1) | {"token_ids": [-1, 2]},
        stored(1) | {"token_ids": "ab"},
        stored(1) | {"block_size": 0},
        stored(1) | {"block_size": -2},
        stored(1) | {"block_hashes": []},
        stored(1, extra_keys=[None, None]),
        stored(1, extra_keys=[[3.5]]),
        stored(1, medium=3),
        stored(1, group_idx="x"),
        stored(1, lora_id="x"),
        {"type": "BlockStored"},
        {"type": "BlockRemoved"},
        ["BlockStored"],
        ["BlockStored", [1], None, "ab"],
        ["BlockRemoved", 7],
        {"block_hashes": [1]},
        [],
        [7],
        7,
        None,
        "BlockStored",
    ],
)
def test_a_bad_event_costs_only_itself(event: object) -> None:
    """It is counted, and those before and behind it stay."""
    assert ([Removed([8]), Removed([9])], {}, {"malformed": 1}) == decoded(removed(8), event, removed(9))


@pytest.mark.parametrize("event", [{"type": "BlockMoved", "hash": 1}, ["BlockMoved", 3]])
def test_an_unknown_event_is_ignored(event: object) -> None:
    """A newer engine may have something to say that does not matter here."""
    assert ([Removed([8]), Removed([9])], {"unknown_type": 1}, {}) == decoded(removed(8), event, removed(9))


def test_text_that_is_no_text() -> None:
    """Not even the name of the event can be read."""
    decoder = Decoder()
    raw = msgspec.Raw(b"\x81\xa4type\xa2\xff\xfe")

    assert [Removed([9])] == events_in(batch(raw, removed(9)), decoder)
    assert {"malformed": 1} == decoder.refused


def test_forms_may_be_mixed() -> None:
    """In one batch, and from one batch to the next."""
    decoder = Decoder()

    assert [Removed([1]), Removed([2**64 - 1]), Removed([3])] == events_in(
        batch(removed(1), ["BlockRemoved", [-1]], removed(3)), decoder
    )
    assert [Removed([4])] == events_in(batch(["BlockRemoved", [4]]), decoder)
    assert [Removed([5])] == events_in(batch(removed(5)), decoder)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x93\xcb\0",
        msgspec.msgpack.encode({"ts": 1.0}),
        msgspec.msgpack.encode(["now", [], 0]),
        msgspec.msgpack.encode([1.0]),
        msgspec.msgpack.encode([1.0, {}]),
        batch(removed(1))[:-3],
        b"\x91" * 100_000,
    ],
)
def test_what_is_no_batch(payload: bytes) -> None:
    """All of it is lost, and anyone who asked is notified."""
    with pytest.raises(UndecodableError):
        events_in(payload)


def test_the_rank_may_be_missing_or_more_may_follow() -> None:
    """Both is in the manner of msgspec's arrays."""
    assert [Removed([1])] == events_in(msgspec.msgpack.encode([1, [removed(1)]]))
    assert [Removed([1])] == events_in(msgspec.msgpack.encode([1.0, [removed(1)], 0, "more"]))
    assert [] == events_in(batch())


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=9)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ("block_hashes", "parent_block_hash", "token_ids", "block_size", "medium", "lora_name", "extra_keys", "group_idx")
)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["BlockStored", "BlockRemoved", "Other"]), st.dictionaries(FIELDS, JSON_LIKE, max_size=2)
        ),
        max_size=4,
    )
)
def test_fields_of_any_kind(events: list[tuple[str, dict[str, object]]]) -> None:
    """Each event is taken, ignored or refused, and never more than one of these."""
    decoder = Decoder()
    taken = events_in(batch(*(stored(1) | fields | {"type": name} for name, fields in events)), decoder)

    assert len(events) == len(taken) + decoder.ignored.total() + decoder.refused.total()


@given(st.binary(max_size=200))
def test_bytes_of_any_kind(payload: bytes) -> None:
    """Nothing but the one error comes out."""
    with contextlib.suppress(UndecodableError):
        events_in(payload)


# ---- pieces


def test_a_long_batch_comes_in_pieces() -> None:
    """Each of as many blocks as are handed on in one go, and in order."""
    many = PIECE_BLOCKS + 5
    pieces = list(Decoder().decode(batch(*(removed(block) for block in range(many)))))

    assert [PIECE_BLOCKS, 5] == [len(piece) for piece in pieces]
    assert [[block] for block in range(many)] == [event.hashes for piece in pieces for event in piece]  # type: ignore[union-attr]


def test_a_long_run_is_cut() -> None:
    """Each part follows the one before."""
    run = Stored([1, 2, 3], 9, [1, 2, 3, 4, 5, 6], 2, Tier.CPU, "lora", None, [None, b"x", None])

    assert [
        Stored([1, 2], 9, [1, 2, 3, 4], 2, Tier.CPU, "lora", None, [None, b"x"]),
        Stored([3], 2, [5, 6], 2, Tier.CPU, "lora", None, [None]),
    ] == list(cut(run, 2))
    assert [run] == list(cut(run, 3))


def test_packed_tokens_are_cut_where_their_blocks_end() -> None:
    """Four bytes a token."""
    run = Stored([1, 2, 3], 9, pack([1, 2, 3, 4, 5, 6]), 2)

    assert [Stored([1, 2], 9, pack([1, 2, 3, 4]), 2), Stored([3], 2, pack([5, 6]), 2)] == list(cut(run, 2))


def test_a_sequence_is_not_cut() -> None:
    """It may be one that was reported before, and only the whole sequence shows that."""
    sequence = Stored([1, 2, 3], None, [1, 2, 3, 4, 5, 6], 2)

    assert [sequence] == list(cut(sequence, 2))


def test_hashes_alone_follow_nothing() -> None:
    """Neither in parts nor as a whole; and removals are cut too."""
    assert [Stored([1], None, [], 0), Stored([2], None, [], 0)] == list(cut(Stored([1, 2], None, [], 0), 1))
    assert [Removed([1], Tier.CPU), Removed([2], Tier.CPU)] == list(cut(Removed([1, 2], Tier.CPU), 1))
    assert [Cleared()] == list(cut(Cleared(), 1))


def test_blocks_of_unknown_borders_stay_together() -> None:
    """Somebody else has to refuse them, as a whole."""
    for token_ids in ([1, 2, 3], pack([1, 2, 3])):
        odd = Stored([1, 2], 7, token_ids, 2)

        assert [odd] == list(cut(odd, 1))


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3 * PIECE_BLOCKS), max_size=4))
def test_pieces_come_to_the_same(lengths: list[int]) -> None:
    """The result is the same as without cutting."""
    runs = [list(range(1000 * index, 1000 * index + length)) for index, length in enumerate(lengths)]
    pieces = list(Decoder().decode(batch(*(removed(*run) for run in runs))))
    reported = [[block for event in piece if isinstance(event, Removed) for block in event.hashes] for piece in pieces]

    assert [block for run in runs for block in run] == [block for piece in reported for block in piece]
    assert all(len(piece) < 2 * PIECE_BLOCKS for piece in reported)
