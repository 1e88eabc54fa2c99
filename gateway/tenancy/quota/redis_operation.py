"""Reservations and background operations in the form in which `redis_meters.lua` takes them."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from cache_index.native import mypyc_attr
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.redis_booking import booking_of
from gateway.tenancy.quota.batched_reservations import Reservable
from gateway.tenancy.quota.limit import Charge

What = Literal["settle", "book", "drop", "adopt"]

_KINDS: Final = {"rate": "r", "period": "p", "concurrent": "c"}
_pack: Final = msgspec.msgpack.Encoder().encode


@mypyc_attr(acyclic=True)
class Operation:
    """Background operation on the store, in the form in which it is sent. `redis_meters.lua` has a function for each
    value of *what*.

    It is packed at once, because it may be sent twice, and its bytes take less memory than the objects. It takes about
    0.9 kB.
    """

    __slots__ = ("packed", "reservation")

    def __init__(self, what: What, reservation: str, charges: Sequence[Charge], entry: Entry | None) -> None:
        """Pack the operation. *entry* is the ledger entry of the operation. For ``adopt``, it is recorded if the
        reservation is lost. For ``drop``, and for requests whose entries are written elsewhere, it is None.
        """
        self.reservation = reservation
        self.packed = msgspec.Raw(_pack((what, reservation, _charges(charges), _booking(entry))))


def packed_operations(first: int, operations: Sequence[Operation]) -> bytes:
    """Return the argument of the script's function ``carry_out``. *first* is the number of the first operation."""
    return _pack([first, *[each.packed for each in operations]])


def packed_hold(charges: Sequence[Charge], lost: Entry | None) -> bytes:
    """Return the content of a reservation. *lost* is the ledger entry to book if the reservation is lost."""
    return _pack((_charges(charges), _booking(lost)))


def packed_reservables(reservables: Sequence[Reservable]) -> bytes:
    """Return the argument of the script's function ``reserve_all``."""
    return _pack([(reservation, _text(held)) for reservation, held in reservables])


def packed_charges(charges: Sequence[Charge]) -> bytes:
    """Return the argument of the script's functions ``spent`` and ``refund``."""
    return _pack(_charges(charges))


def _booking(entry: Entry | None) -> list[msgspec.Raw]:
    """Return the booking of *entry*. Without an entry, the booking is empty."""
    return [] if entry is None else [_text(field) for field in booking_of(entry)]


def _text(field: bytes) -> msgspec.Raw:
    """Return *field* as msgpack str 32. The cmsgpack library in some Redis versions does not support the bin format."""
    return msgspec.Raw(b"\xdb" + len(field).to_bytes(4, "big") + field)


def _charges(charges: Sequence[Charge]) -> list[tuple[str, str, float, float, float, str, float, float]]:
    return [
        (
            *(limit.id, _KINDS[limit.kind], limit.amount, limit.burst),
            *(each.units, each.period, each.period_left_s, each.likely),
        )
        for each in charges
        for limit in (each.limit,)
    ]
