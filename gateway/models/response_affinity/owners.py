"""Owners of responses: OpenAI's Responses API has a memory, and one worker holds it."""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from cache_index import WorkerId
from gateway.protocol.errors import InvalidField, StoreUnavailable

MAX_UNWRITTEN: Final = 10_000
"""Owners that wait for an unavailable store, about 400 bytes each. Beyond that, the oldest are known only here."""
BATCH: Final = 64
"""Owners written together."""
AGAIN_S: Final = 1.0
"""Time between two attempts to write to a store that is not available."""

_decode_row = msgspec.json.Decoder(tuple[str, str, str | None, str]).decode
_is_plain = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:~-]{0,255}").fullmatch


class ResponseOwner(msgspec.Struct, frozen=True):
    model: str
    """The configured name."""
    worker: WorkerId
    team: str | None = None
    """Team that the response belongs to; None without teams."""
    asked: str = ""
    """Requested name of the model: a key may be allowed for that alone. Empty: the configured name."""


def row_of(owner: ResponseOwner) -> bytes:
    """Return *owner* as stores keep it."""
    return msgspec.json.encode((owner.model, owner.worker, owner.team, owner.asked))


def owner_in(row: bytes | str) -> ResponseOwner:
    """Return the owner that `row_of` encoded. Decoded as a tuple: compiled, a Struct loses the types of its fields."""
    model, worker, team, asked = _decode_row(row)
    return ResponseOwner(model, WorkerId(worker), team, asked)


class OwnerStore(Protocol):
    """Store of owners, shared by gateways, for as long as responses live. Ids are digests, see `digest`."""

    async def find(self, digest: str) -> ResponseOwner | None:
        """Return the owner of a response; None if it has none.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        ...

    async def keep(self, owners: Mapping[str, ResponseOwner]) -> Mapping[str, ResponseOwner]:
        """Store those *owners* whose responses have none yet; return the existing owners of the others.

        Raises:
            StoreUnavailable: some may have been kept or not.
        """
        ...


def digest(response_id: str) -> str:
    """Return the key of a response, as ids may be long: 32 hexadecimal digits."""
    return hashlib.sha256(response_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_response_id(response_id: str, param: str) -> None:
    """Raise InvalidField if *response_id* cannot be part of a path: no slash, ``..``, space or control character."""
    if not _is_plain(response_id):
        text = f"'{param}' must be an id of at most 256 letters, digits, '_', '.', ':', '~' and '-'"
        raise InvalidField(text, param=param)


class ResponseOwners:
    """Worker and team of each response, for the *most* recently used ones; all others are in *store*.

    About 400 bytes each. An owner never changes: an id that comes again is ignored.
    """

    def __init__(self, store: OwnerStore | None = None, *, most: int = 100_000) -> None:
        """*store* None: only the responses of this process are known."""
        self._store = store
        self._most = most
        self._owners: OrderedDict[str, ResponseOwner] = OrderedDict()
        self._unwritten: OrderedDict[str, ResponseOwner] = OrderedDict()
        self._comes = asyncio.Event()

    def remember(self, response_id: str, owner: ResponseOwner) -> None:
        """Keep *owner*, unless the response has one already."""
        key = digest(response_id)
        if key in self._owners:
            self._owners.move_to_end(key)
            return
        self._put(key, owner)
        if self._store is not None and owner.team is not None:
            self._unwritten[key] = owner
            if len(self._unwritten) > MAX_UNWRITTEN:
                self._unwritten.popitem(last=False)
            self._comes.set()

    def find(self, response_id: str) -> ResponseOwner | None:
        """Return the owner; None if it is not known to this process. Finding it counts as a use."""
        key = digest(response_id)
        owner = self._owners.get(key)
        if owner is not None:
            self._owners.move_to_end(key)
        return owner

    def peek(self, response_id: str) -> ResponseOwner | None:
        """Return the owner like `find`, without counting it as a use."""
        return self._owners.get(digest(response_id))

    async def look(self, response_id: str) -> ResponseOwner | None:
        """Return the owner like `find`, also for responses of other gateways or of this one before a restart.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        owner = self.find(response_id)
        if owner is None and self._store is not None:
            key = digest(response_id)
            owner = await self._store.find(key)
            if owner is not None:
                self._put(key, owner)
        return owner

    async def run(self) -> None:
        """Write new owners to the store, apart from requests, until canceled."""
        while True:
            await self._comes.wait()
            self._comes.clear()
            is_away = False
            try:
                await self.write()
            except StoreUnavailable:
                is_away = True
            if is_away:
                await asyncio.sleep(AGAIN_S)
                self._comes.set()

    async def write(self) -> None:
        """Write all owners that the store does not have yet.

        Raises:
            StoreUnavailable: some are not written.
        """
        while self._unwritten and self._store is not None:
            batch = dict(list(self._unwritten.items())[:BATCH])
            for key, owner in (await self._store.keep(batch)).items():
                self._put(key, owner)  # whose it was before
            for key in batch:
                with suppress(KeyError):
                    del self._unwritten[key]

    def _put(self, key: str, owner: ResponseOwner) -> None:
        self._owners[key] = owner
        self._owners.move_to_end(key)
        if len(self._owners) > self._most:
            self._owners.popitem(last=False)
