"""Read access to the receipts of completed requests."""

from collections.abc import Callable

import msgspec

from gateway.telemetry.receipts.receipt import Receipt, ReceiptSummary, receipt_of, summary_of
from gateway.telemetry.receipts.ring import ReceiptFilter, ReceiptRing

ALL = ReceiptFilter()


class ReceiptPage(msgspec.Struct, frozen=True):
    receipts: list[ReceiptSummary]
    """Summaries of the receipts of the page, latest first."""
    next: int | None
    """Value of *before* for the next page, or None on the last page."""


class Receipts:
    """Receipts of the latest requests that this gateway has completed.

    Several gateways do not share their receipts: each one knows only the requests that it has served itself.
    """

    def __init__(self, ring: ReceiptRing, settle: Callable[[], None]) -> None:
        """Read from *ring*. The function *settle* adds the receipts of requests that have just ended."""
        self._ring = ring
        self._settle = settle

    def get(self, request_id: str) -> Receipt | None:
        """Return the latest receipt of the request *request_id*, or None if no receipt is kept."""
        if not request_id.isascii():
            return None
        self._settle()
        found = self._ring.find(request_id.encode("ascii"))
        return None if found is None else receipt_of(*found)

    def page(self, wanted: ReceiptFilter = ALL, *, limit: int, before: int | None = None) -> ReceiptPage:
        """Return at most *limit* receipts that match *wanted*, latest first, with numbers lower than *before*.

        A receipt that is kept throughout is on exactly one page, even if requests end between two pages.
        """
        self._settle()
        found = self._ring.newest(wanted, limit=limit + 1, before=before)
        shown = [summary_of(*each) for each in found[:limit]]
        return ReceiptPage(shown, shown[-1].number if len(found) > limit else None)

    def since(self, number: int, wanted: ReceiptFilter = ALL, *, limit: int) -> list[ReceiptSummary]:
        """Return at most *limit* receipts that match *wanted* and have numbers from *number* on, latest first.

        A live view passes the value that `next_number` had when it was called last.
        """
        self._settle()
        return [summary_of(*each) for each in self._ring.newest(wanted, limit=limit, after=number - 1)]

    @property
    def next_number(self) -> int:
        """Number of the next receipt, which is the number of receipts since startup."""
        self._settle()
        return self._ring.total
