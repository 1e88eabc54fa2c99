"""The ring of the latest receipts."""

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.receipts.ring import ReceiptFilter, ReceiptRing
from tests.gateway.examples import Clock
from tests.gateway.telemetry.receipts.examples import SECONDS_OF_2026, answered

EVERY = ReceiptFilter()
SIZE = 20_000
MIB = 2**20


def a_ring(size: int = 3) -> ReceiptRing:
    """A ring at 110 s; requests that began at 100 s began 10 s before the year 2026 plus 10 s."""
    return ReceiptRing(size, clock=Clock(110.0), wall_clock=Clock(SECONDS_OF_2026 + 10.0))


def add(ring: ReceiptRing, *names: str, ended: float = 102.0, **known: object) -> None:
    ring.observe([CompletedRequest(answered(request_id=name.encode(), **known), ended) for name in names])


def ids(ring: ReceiptRing, wanted: ReceiptFilter = EVERY, **where: int) -> list[str]:
    return [record.request_id.decode() for _, record in ring.newest(wanted, **{"limit": 100, **where})]


def test_the_latest_requests_come_first() -> None:
    ring = a_ring()
    add(ring, "r0", "r1")

    assert ["r1", "r0"] == ids(ring)
    assert [(1, "r1"), (0, "r0")] == [(n, record.request_id.decode()) for n, record in ring.newest(EVERY, limit=9)]
    assert (2, 2) == (len(ring), ring.total)


def test_a_new_receipt_replaces_the_oldest() -> None:
    ring = a_ring(3)
    add(ring, "r0", "r1", "r2", "r3")

    assert ["r3", "r2", "r1"] == ids(ring)
    assert (3, 4) == (len(ring), ring.total)
    assert ring.find(b"r0") is None


def test_a_request_is_found_by_its_id() -> None:
    """If two requests have sent the same id, the later one."""
    ring = a_ring(3)
    add(ring, "r0", "same", "same")
    found = ring.find(b"same")

    assert found is not None
    assert 2 == found[0]
    assert b"same" == found[1].request_id
    assert ring.find(b"other") is None
    assert a_ring().find(b"r0") is None


def test_the_start_of_a_request_is_a_time_of_day() -> None:
    ring = a_ring()
    add(ring, "r0")

    assert [SECONDS_OF_2026] == [record.began_at for _, record in ring.newest(EVERY, limit=1)]


def test_pages_continue_before_a_number() -> None:
    ring = a_ring(10)
    add(ring, *(f"r{number}" for number in range(12)))

    assert ["r11", "r10"] == ids(ring, limit=2)
    assert ["r9", "r8"] == ids(ring, limit=2, before=10)
    assert ["r2"] == ids(ring, before=3)
    assert [] == ids(ring, before=2)
    assert ["r11"] == ids(ring, after=10)
    assert ["r11", "r10"] == ids(ring, before=99, after=9)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ReceiptFilter(team="red"), ["red"]),
        (ReceiptFilter(model="big"), ["big"]),
        (ReceiptFilter(worker="b"), ["other-worker"]),
        (ReceiptFilter(session="s-1"), ["session"]),
        (ReceiptFilter(session="s-\u00fc"), []),
        (ReceiptFilter(error="Refused"), ["refused"]),
        (ReceiptFilter(min_status=400, max_status=499), ["refused"]),
        (ReceiptFilter(min_duration_s=5.0), ["slow"]),
        (ReceiptFilter(since=SECONDS_OF_2026 + 1.0), ["late"]),
        (ReceiptFilter(team="red", model="big"), []),
    ],
)
def test_filters(wanted: ReceiptFilter, found: list[str]) -> None:
    ring = a_ring(10)
    add(ring, "red", team="red")
    add(ring, "big", model="big")
    add(ring, "other-worker", backend="b")
    add(ring, "session", session=b"s-1")
    add(ring, "refused", status=400, error="Refused")
    add(ring, "slow", ended=106.0)
    add(ring, "late", started=101.5)

    assert found == ids(ring, wanted)


@given(size=st.integers(1, 8), batches=st.lists(st.integers(0, 5), max_size=12))
def test_a_ring_keeps_exactly_the_latest(size: int, batches: list[int]) -> None:
    """However the requests arrive in batches, and never more than fit."""
    ring = a_ring(size)
    names: list[str] = []
    for batch in batches:
        new = [f"r{len(names) + place}" for place in range(batch)]
        names += new
        add(ring, *new)

        assert names[::-1][:size] == ids(ring)
        assert min(size, len(names)) == len(ring)
    for number, name in enumerate(names):
        found = ring.find(name.encode())
        assert (number if number >= len(names) - size else None) == (None if found is None else found[0])


def test_twenty_thousand_receipts_stay_below_16_mib() -> None:
    """Also after the ring has gone around: with ids of their own, and two candidates each."""
    ring = a_ring(SIZE)
    exchange = answered()
    tracemalloc.start()
    try:
        for number in range(SIZE + 5_000):
            exchange.request_id = b"%032x" % number
            ring.observe([CompletedRequest(exchange, 102.0)])
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert SIZE == len(ring)
    assert used < 16 * MIB
