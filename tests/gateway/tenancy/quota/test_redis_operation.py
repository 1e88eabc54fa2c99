"""What Redis gets, read as the script reads it."""

from typing import Any

import msgspec

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.quota.limit import Charge
from gateway.tenancy.quota.redis_operation import (
    Operation,
    packed_charges,
    packed_hold,
    packed_operations,
    packed_reservables,
)
from tests.gateway.tenancy.quota.examples import SLOTS, TOKENS, entry, usd


def unpacked(packed: bytes | msgspec.Raw) -> Any:
    return msgspec.msgpack.decode(packed)


def parts(packed: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The items of a list, which may hold texts that are not UTF-8."""
    return msgspec.msgpack.decode(packed, type=list[msgspec.Raw])


def row_of(charge: Charge) -> list[Any]:
    (row,) = unpacked(packed_charges([charge]))
    return list(row)


def test_a_charge_is_a_row_of_eight_values() -> None:
    """The id, kind, amount and burst of its limit; its units, period, seconds left, and units if it is lost."""
    charge = usd(0.5)
    limit = charge.limit

    assert [
        limit.id,
        "p",
        limit.amount,
        limit.burst,
        0.5,
        charge.period,
        charge.period_left_s,
        charge.likely,
    ] == row_of(charge)
    assert ["r", "c"] == [row_of(Charge(TOKENS, 1.0))[1], row_of(Charge(SLOTS, 1.0))[1]]


def test_operations_follow_the_number_of_the_first() -> None:
    """The script counts on from it."""
    slot = Charge(SLOTS, 1.0)
    operations = [Operation("drop", "a", (), None), Operation("settle", "b", (slot,), entry("b"))]
    first, dropped, settled = parts(packed_operations(7, operations))

    assert 7 == unpacked(first)
    assert ["drop", "a", [], []] == unpacked(dropped)
    assert ["settle", "b", [row_of(slot)]] == [unpacked(each) for each in parts(settled)[:3]]
    assert 6 == len(parts(parts(settled)[3]))
    assert ["a", "b"] == [each.reservation for each in operations]


def test_a_reservation_without_an_entry_has_no_booking() -> None:
    """Its sender writes the entry, or no limit can grant it."""
    lost: Entry | None = None

    assert [[], []] == unpacked(packed_hold((), lost))
    assert 6 == len(parts(parts(packed_hold((), entry("lost")))[1]))


def test_reservations_are_packed_twice() -> None:
    """Redis keeps the inner text as it is. It is a str, because some versions cannot read bytes."""
    held = packed_hold((Charge(SLOTS, 1.0),), None)
    packed = packed_reservables([("a", held)])

    assert b"\xdb" + len(held).to_bytes(4, "big") + held in packed
    assert packed.startswith(b"\x91\x92\xa1a")
