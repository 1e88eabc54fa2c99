import struct

import msgspec

from gateway.tenancy.ledger.record import FIELDS
from gateway.tenancy.ledger.redis_booking import booking_of
from tests.gateway.tenancy.ledger.examples import an_entry


def test_a_booking_is_six_texts() -> None:
    booking = booking_of(an_entry(user="ann", project="web"))

    assert b"warmgate:{blue}:ledger:" == booking.base
    assert (b"2026-11-21", b'["ci","web","tiny","w1"]', b"ann") == (booking.day, booking.group, booking.user)
    assert (1, 0, 0, 0, 0, 100, 60, 20, 1e6, 4e5, 0) == struct.unpack("<11d", booking.measures)
    assert len(FIELDS) == len(msgspec.json.decode(booking.record))


def test_a_missing_user_is_an_empty_text() -> None:
    assert b"" == booking_of(an_entry(user=None)).user


def test_a_user_of_another_alphabet_is_utf_8() -> None:
    assert "ünï".encode() == booking_of(an_entry(user="ünï")).user
