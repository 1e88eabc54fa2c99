"""Booking of one ledger entry in Redis, as the Lua function ``ledger_book`` takes it (see
`gateway.tenancy.ledger.redis_usage`).
"""

import struct
from typing import Final, NamedTuple

import msgspec

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.measures import Measures, measures_of

MEASURES: Final = struct.Struct(f"<{len(Measures._fields)}d")
"""Format of stored measures."""
_json: Final = msgspec.json.Encoder().encode


class LedgerBooking(NamedTuple):
    """Arguments of the Lua function ``ledger_book``, in order. They are binary-safe strings, so that they can be stored
    and used later.
    """

    base: bytes
    """Prefix of all Redis keys that the booking writes. It includes the team's hash tag."""
    day: bytes
    record: bytes
    group: bytes
    measures: bytes
    user: bytes
    """End user, or an empty string if the request named no end user."""


def base_of(team: str) -> bytes:
    return b"warmgate:{%b}:ledger:" % team.encode()


def booking_of(entry: Entry) -> LedgerBooking:
    return LedgerBooking(
        base_of(entry.team),
        entry.day.encode(),
        _json(entry.row()),
        _json((entry.key, entry.project, entry.model, entry.backend)),
        MEASURES.pack(*measures_of(entry)),
        (entry.user or "").encode(),
    )
