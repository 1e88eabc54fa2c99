"""The fields of KV events in msgpack."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index.tokens import pack
from gateway.workers.kv_events.wire import FORMS, UNSORTED, packed_ids, plain_hash
from tests.gateway.workers.kv_events.examples import batch, cleared, removed, stored


@pytest.mark.parametrize(
    ("engine_hash", "plain"),
    [
        (0, 0),
        (2**64 - 1, 2**64 - 1),
        (-1, 2**64 - 1),
        (-(2**63), 2**63),
        (b"\x01" * 24 + b"\0\0\0\0\0\0\1\2", 258),
        (b"\x01\x02", 258),
    ],
)
def test_every_hash_becomes_64_bits(engine_hash: int | bytes, plain: int) -> None:
    """vLLM shortens digests to their last 8 bytes; SGLang's are signed."""
    assert plain == plain_hash(engine_hash)


def test_no_bytes_are_no_hash() -> None:
    """All such blocks would be one."""
    with pytest.raises(ValueError, match="empty"):
        plain_hash(b"")


@pytest.mark.parametrize(
    ("form", "events"),
    [
        (0, [stored(1), removed(1), cleared()]),
        (1, [stored(-1), removed(b"x"), cleared()]),
        (2, [["BlockStored", [1], None, [1, 2], 2], ["BlockRemoved", [1]], ["AllBlocksCleared"]]),
        (3, [["BlockStored", [b"x"], -4, [1, 2], 2], ["BlockRemoved", [-1], "GPU"], ["AllBlocksCleared"]]),
    ],
)
def test_each_form_reads_its_own(form: int, events: list[object]) -> None:
    """The plain forms read nothing else, so that their hashes need not be checked."""
    payload = batch(*events)

    assert 3 == len(FORMS[form].batch.decode(payload).events)
    assert events[0] is not FORMS[form].event.decode(UNSORTED.decode(payload).events[0])
    for other in {0: (2, 3), 1: (0, 2, 3), 2: (0, 1), 3: (0, 1, 2)}[form]:
        with pytest.raises(msgspec.ValidationError):
            FORMS[other].batch.decode(payload)


@pytest.mark.parametrize("is_compiled", [False, True])
@given(st.lists(st.sampled_from([0, 127, 128, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32, 2**62]), max_size=40))
def test_ids_are_packed_as_those_of_prompts_are(is_compiled: bool, ids: list[int]) -> None:
    """Whether the compiled core unpacks them or `msgspec` does, and however wide they are."""
    assert pack(ids) == packed_ids(msgspec.Raw(msgspec.msgpack.encode(ids)), is_compiled=is_compiled)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("reported", [[1, -1], [1, "a"], [70_000, [2]], {}, None, 7, "ab"])
def test_what_is_no_id_is_refused(is_compiled: bool, reported: object) -> None:
    with pytest.raises(ValueError):
        packed_ids(msgspec.Raw(msgspec.msgpack.encode(reported)), is_compiled=is_compiled)
