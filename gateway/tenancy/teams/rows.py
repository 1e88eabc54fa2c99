"""Teams, keys, added workers and weights of routes in their stored form, which is JSON by name or id."""

import logging
from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from gateway.tenancy.teams.access_records import AccessRecord
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.team import Team

_log = logging.getLogger(__name__)

Entity = Team | Key | AddedWorker | RouteWeights | AccessRecord
E = TypeVar("E", Team, Key, AddedWorker, RouteWeights, AccessRecord)


def row_of(entity: Entity) -> bytes:
    """Return the JSON of *entity*. Fields that have their default values are omitted."""
    return msgspec.json.encode(entity)


class Rows(Generic[E]):
    """Reader for the rows of one kind. An unchanged row is not parsed again and stays the same object.

    Fields that only another version of the gateway knows are ignored. During a rolling update, key revocations must
    reach old replicas too.
    """

    def __init__(self, kind: type[E]) -> None:
        self._kind = getattr(kind, "__name__", "access record")  # a union has no name
        self._decoder: msgspec.json.Decoder[E] = msgspec.json.Decoder(kind)
        self._read: dict[str, tuple[bytes, E | None]] = {}

    def read(self, rows: Iterable[tuple[str, bytes]]) -> dict[str, E]:
        """Return the parsed *rows* by name. Unreadable rows are omitted, so that a broken row gives no access."""
        former, self._read = self._read, {}
        for name, row in rows:
            known = former.get(name)
            self._read[name] = known if known is not None and known[0] == row else (row, self._entity(name, row))
        return {name: entity for name, (_, entity) in self._read.items() if entity is not None}

    def _entity(self, name: str, row: bytes) -> E | None:
        try:
            return self._decoder.decode(row)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Logged once per row, without its content.
            _log.error("the row of %s %r in the store cannot be read and is skipped", self._kind, name)
            return None
