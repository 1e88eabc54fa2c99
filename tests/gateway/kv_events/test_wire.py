"""What engines put into msgpack."""

import msgspec
import pytest

from gateway.kv_events.wire import FORMS, UNSORTED, plain_hash
from tests.gateway.kv_events.examples import batch, cleared, removed, stored


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
    """And the plain ones nothing else, so that their hashes need not be looked at."""
    payload = batch(*events)

    assert 3 == len(FORMS[form].batch.decode(payload).events)
    assert events[0] is not FORMS[form].event.decode(UNSORTED.decode(payload).events[0])
    for other in {0: (2, 3), 1: (0, 2, 3), 2: (0, 1), 3: (0, 1, 2)}[form]:
        with pytest.raises(msgspec.ValidationError):
            FORMS[other].batch.decode(payload)
