"""Who keeps which response: OpenAI's Responses API has a memory, and that memory is one worker's."""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from cache_index import WorkerId
from gateway.errors import InvalidField, StoreAway

MOST_UNWRITTEN: Final = 10_000
"""Owners that wait for a store that is away, each of some 400 bytes. Of more the oldest are known here alone."""
BATCH: Final = 64
"""Owners written together."""
AGAIN_S: Final = 1.0
"""Between two attempts to write to a store that is away."""

_decode_row = msgspec.json.Decoder(tuple[str, str, str | None, str]).decode
_is_plain = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:~-]{0,255}").fullmatch


class Owner(msgspec.Struct, frozen=True):
    model: str
    """The configured name."""
    worker: WorkerId
    team: str | None = None
    """Whose it is; None where there are no teams."""
    asked: str = ""
    """The name that the model was asked for by: a key may be allowed that alone. Empty: the configured one."""


def row_of(owner: Owner) -> bytes:
    """*owner* as stores keep it."""
    return msgspec.json.encode((owner.model, owner.worker, owner.team, owner.asked))


def owner_in(row: bytes | str) -> Owner:
    """What `row_of` has made of an owner. By a tuple: compiled, a Struct loses the types that it is decoded by."""
    model, worker, team, asked = _decode_row(row)
    return Owner(model, WorkerId(worker), team, asked)


class OwnerStore(Protocol):
    """Keeps owners for all gateways that share it, for as long as responses live. Ids are digests, see `digest`."""

    async def find(self, digest: str) -> Owner | None:
        """The owner of a response; None if there is none.

        Raises:
            StoreAway: it cannot be told.
        """
        ...

    async def keep(self, owners: Mapping[str, Owner]) -> Mapping[str, Owner]:
        """Keep those of *owners* whose responses have none; the others, which stay whose they are, are returned.

        Raises:
            StoreAway: some may have been kept or not.
        """
        ...


def digest(response_id: str) -> str:
    """What a response is remembered by: its id may be long. 32 hexadecimal digits."""
    return hashlib.sha256(response_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_response_id(response_id: str, param: str) -> None:
    """Raises InvalidField where *response_id* cannot stand in a path as it is: no slash, ``..``, space or control."""
    if not _is_plain(response_id):
        text = f"'{param}' must be an id of at most 256 letters, digits, '_', '.', ':', '~' and '-'"
        raise InvalidField(text, param=param)


class ResponseOwners:
    """Remembers the worker and the team of each response, the *most* recently used ones; all others are in *store*.

    About 400 bytes each. What has an owner keeps it: an id that comes again changes nothing.
    """

    def __init__(self, store: OwnerStore | None = None, *, most: int = 100_000) -> None:
        """Without *store* nothing is known but what this process has passed on."""
        self._store = store
        self._most = most
        self._owners: OrderedDict[str, Owner] = OrderedDict()
        self._unwritten: OrderedDict[str, Owner] = OrderedDict()
        self._comes = asyncio.Event()

    def remember(self, response_id: str, owner: Owner) -> None:
        """*owner* has it, unless it has one already."""
        key = digest(response_id)
        if key in self._owners:
            self._owners.move_to_end(key)
            return
        self._put(key, owner)
        if self._store is not None and owner.team is not None:
            self._unwritten[key] = owner
            if len(self._unwritten) > MOST_UNWRITTEN:
                self._unwritten.popitem(last=False)
            self._comes.set()

    def find(self, response_id: str) -> Owner | None:
        """None if it is not known to this process. To be found is to be used."""
        key = digest(response_id)
        owner = self._owners.get(key)
        if owner is not None:
            self._owners.move_to_end(key)
        return owner

    def peek(self, response_id: str) -> Owner | None:
        """As `find`, without counting as a use."""
        return self._owners.get(digest(response_id))

    async def look(self, response_id: str) -> Owner | None:
        """As `find`, also for what other gateways, or this one in a former life, have passed on.

        Raises:
            StoreAway: that cannot be told.
        """
        owner = self.find(response_id)
        if owner is None and self._store is not None:
            key = digest(response_id)
            owner = await self._store.find(key)
            if owner is not None:
                self._put(key, owner)
        return owner

    async def run(self) -> None:
        """Write what is remembered to the store, behind the requests. Until cancelled."""
        while True:
            await self._comes.wait()
            self._comes.clear()
            is_away = False
            try:
                await self.write()
            except StoreAway:
                is_away = True
            if is_away:
                await asyncio.sleep(AGAIN_S)
                self._comes.set()

    async def write(self) -> None:
        """Write what the store does not have yet.

        Raises:
            StoreAway: some is not written.
        """
        while self._unwritten and self._store is not None:
            batch = dict(list(self._unwritten.items())[:BATCH])
            for key, owner in (await self._store.keep(batch)).items():
                self._put(key, owner)  # whose it was before
            for key in batch:
                with suppress(KeyError):
                    del self._unwritten[key]

    def _put(self, key: str, owner: Owner) -> None:
        self._owners[key] = owner
        self._owners.move_to_end(key)
        if len(self._owners) > self._most:
            self._owners.popitem(last=False)
