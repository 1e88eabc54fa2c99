"""Owners of stored responses. The owner is the worker that stores a response of the Responses API, with its team."""

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
"""Maximum number of owners that wait for an unavailable store, at about 400 bytes each. Excess owners are never
written.
"""
BATCH: Final = 64
"""Maximum number of response owners to write to the store at once."""
AGAIN_S: Final = 1.0
"""Seconds between two attempts to write response owners to an unavailable store."""

_decode_row = msgspec.json.Decoder(tuple[str, str, str | None, str]).decode
_is_plain = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:~-]{0,255}").fullmatch


class ResponseOwner(msgspec.Struct, frozen=True):
    model: str
    """Configured name of the model that generated the response."""
    worker: WorkerId
    team: str | None = None
    """Team to which the response belongs, or None without teams."""
    asked: str = ""
    """Model name in the request, to which the permissions of keys apply. It is empty if it is the configured name."""


def row_of(owner: ResponseOwner) -> bytes:
    """Return *owner* in the serialized form for the store."""
    return msgspec.json.encode((owner.model, owner.worker, owner.team, owner.asked))


def owner_in(row: bytes | str) -> ResponseOwner:
    """Return the owner from the output of `row_of`. It is parsed as a tuple, because compiled Structs lose their field
    types.
    """
    model, worker, team, asked = _decode_row(row)
    return ResponseOwner(model, WorkerId(worker), team, asked)


class OwnerStore(Protocol):
    """Store of response owners, shared by gateways. The `digest` of its id identifies a response."""

    async def find(self, digest: str) -> ResponseOwner | None:
        """Return the owner of a response, or None if the owner is unknown.

        Raises:
            StoreUnavailable: if the store does not answer.
        """
        ...

    async def keep(self, owners: Mapping[str, ResponseOwner]) -> Mapping[str, ResponseOwner]:
        """Store the *owners* of responses without an owner, and return the existing owners of all other responses.

        Raises:
            StoreUnavailable: if the store does not answer. Some owners may have been stored.
        """
        ...


def digest(response_id: str) -> str:
    """Return the key of a response in the store, which has 32 hexadecimal digits whatever the length of the id."""
    return hashlib.sha256(response_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_response_id(response_id: str, param: str) -> None:
    """Raise InvalidField if *response_id* is unsafe in a URL path, because it has a slash, ``..``, a space or a control
    character.
    """
    if not _is_plain(response_id):
        text = f"'{param}' must be an id of at most 256 letters, digits, '_', '.', ':', '~' and '-'"
        raise InvalidField(text, param=param)


class ResponseOwners:
    """Owners of the *most* recently used responses, kept in memory. All other owners are only in *store*.

    Each owner takes about 400 bytes. Owners never change, so a repeated id is ignored.
    """

    def __init__(self, store: OwnerStore | None = None, *, most: int = 100_000) -> None:
        """Create the collection. *store* has all owners. If it is None, only responses of this process are known."""
        self._store = store
        self._most = most
        self._owners: OrderedDict[str, ResponseOwner] = OrderedDict()
        self._unwritten: OrderedDict[str, ResponseOwner] = OrderedDict()
        self._comes = asyncio.Event()

    def remember(self, response_id: str, owner: ResponseOwner) -> None:
        """Remember *owner* as the owner of the response, unless the response already has an owner."""
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
        """Return the owner of the response, or None if this process has none. Mark the owner as recently used."""
        key = digest(response_id)
        owner = self._owners.get(key)
        if owner is not None:
            self._owners.move_to_end(key)
        return owner

    def peek(self, response_id: str) -> ResponseOwner | None:
        """Return the owner of the response in the same way as `find`, but without marking it as recently used."""
        return self._owners.get(digest(response_id))

    async def look(self, response_id: str) -> ResponseOwner | None:
        """Return the owner of the response from memory or from the store, or None if neither knows the response.

        Raises:
            StoreUnavailable: if the store does not answer.
        """
        owner = self.find(response_id)
        if owner is None and self._store is not None:
            key = digest(response_id)
            owner = await self._store.find(key)
            if owner is not None:
                self._put(key, owner)
        return owner

    async def run(self) -> None:
        """Write new response owners to the store in the background until canceled."""
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
        """Write those response owners to the store that are not in it yet.

        Raises:
            StoreUnavailable: if some owners could not be written.
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
