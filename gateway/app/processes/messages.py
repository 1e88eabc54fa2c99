"""Messages between the supervisor and the processes of one gateway: JSON lines on a socket pair."""

from typing import Any, Final

import msgspec

MAX_LINE_BYTES: Final = 64 * 2**20
"""Maximum size of one message. The largest messages are expositions of metrics."""

Message = dict[str, Any]


def encoded(kind: str, **fields: object) -> bytes:
    return msgspec.json.encode({"kind": kind, **fields}) + b"\n"


def decoded(line: bytes) -> Message:
    message: Message = msgspec.json.decode(line)
    return message


class Assignment(msgspec.Struct, frozen=True):
    """Facts that a process gets from the supervisor before it starts."""

    number: int
    """Number of the process, from 1."""
    variables: dict[str, str]
    """Environment variables that override settings."""
    is_store_hidden: bool
    """Whether the settings name no store, and the supervisor has one for its processes."""
    listener: int
    """File descriptor of the listening socket."""
    admin: int | None = None
    """File descriptor of the socket of the admin port, which only process 1 serves."""
    probes: int | None = None
    table: int | None = None
    """File descriptor of the table of limits, if the store is a SQLite file."""
    seat: int = 0
    """Seat of this process in the table, which no other process has."""
    hub: int | None = None
    """File descriptor of a socket to the hub of the processes, or None if they exchange messages through Redis."""
    hub_key: str = ""
    """Key for prompt hashes of all processes, as hexadecimal digits."""


def assignment_of(line: bytes) -> Assignment:
    return msgspec.json.decode(line, type=Assignment)
