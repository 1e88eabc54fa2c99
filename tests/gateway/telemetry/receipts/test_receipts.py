"""Read access to receipts."""

from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.receipts.receipts import Receipts
from gateway.telemetry.receipts.ring import ReceiptFilter, ReceiptRing
from tests.gateway.examples import Clock
from tests.gateway.telemetry.receipts.examples import SECONDS_OF_2026, answered


class Kept:
    """A ring with a batch of requests that have just ended, and access to it."""

    def __init__(self, *names: str, size: int = 10, **known: object) -> None:
        self.ring = ReceiptRing(size, clock=Clock(), wall_clock=Clock(SECONDS_OF_2026))
        self.batch = [CompletedRequest(answered(request_id=name.encode(), **known), 102.0) for name in names]
        self.receipts = Receipts(self.ring, self.settle)

    def settle(self) -> None:
        batch, self.batch = self.batch, []
        self.ring.observe(batch)


def test_a_request_that_has_just_ended_is_found() -> None:
    receipt = Kept("r0").receipts.get("r0")

    assert receipt is not None
    assert ("r0", 0) == (receipt.id, receipt.number)


def test_an_unknown_id_is_not_found() -> None:
    kept = Kept("r0")

    assert kept.receipts.get("r1") is None
    assert kept.receipts.get("r\u00fc") is None


def test_pages_contain_each_receipt_once() -> None:
    """Although two more requests end between the pages."""
    kept = Kept("r0", "r1", "r2")
    first = kept.receipts.page(limit=2)
    kept.batch = [CompletedRequest(answered(request_id=b"r3"), 103.0)]
    second = kept.receipts.page(limit=2, before=first.next)

    assert (["r2", "r1"], 1) == ([receipt.id for receipt in first.receipts], first.next)
    assert (["r0"], None) == ([receipt.id for receipt in second.receipts], second.next)


def test_a_full_last_page_has_no_next_page() -> None:
    assert Kept("r0", "r1").receipts.page(limit=2).next is None


def test_a_page_of_a_filter() -> None:
    kept = Kept("r0", team="blue")

    assert ["r0"] == [each.id for each in kept.receipts.page(ReceiptFilter(team="blue"), limit=5).receipts]
    assert [] == kept.receipts.page(ReceiptFilter(team="red"), limit=5).receipts


def test_new_receipts_since_a_number() -> None:
    kept = Kept("r0", "r1")
    number = kept.receipts.next_number
    kept.batch = [CompletedRequest(answered(request_id=b"r2"), 103.0)]

    assert 2 == number
    assert ["r2"] == [each.id for each in kept.receipts.since(number, limit=5)]
    assert ["r2", "r1"] == [each.id for each in kept.receipts.since(0, limit=2)]
    assert [] == kept.receipts.since(kept.receipts.next_number, limit=5)
